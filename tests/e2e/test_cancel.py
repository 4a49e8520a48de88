"""Ctrl-C in each phase: exit 130 at once, the server is left alone, the files are whole, the output says so."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.program import PATIENCE, Place, Running, call, calls, says

FOREVER = 3000.0  # seconds; whoever waits for it is caught by the hang guard
HALF = says("Half an answer, ", "and the rest.", fault={"kind": "silence", "after": 1})


def read_until(running: Running, kind: str) -> list[dict[str, object]]:
    """The events of stream-json up to the first one of a kind."""
    assert running.child.stdout is not None
    events: list[dict[str, object]] = []
    while not events or events[-1]["type"] != kind:
        line = running.child.stdout.readline()
        assert line, f"no {kind} came: {events}"
        events.append(json.loads(line))
    return events


def assert_left_alone(running: Running, number: int = 1) -> None:
    request = running.simulator.requests[number - 1]
    assert request.disconnected.wait(PATIENCE)
    assert len(running.simulator.requests) == number


def test_while_waiting_for_the_headers(place: Place) -> None:
    with place.started("ask", "hi", replies=[says("Late.", delay_first=FOREVER)]) as running:
        running.wait_for_request()
        result = running.interrupt()
        assert (result.code, result.stdout) == (130, "")
        assert "Interrupted." in result.stderr
        assert_left_alone(running)


def test_while_waiting_for_the_first_byte(place: Place) -> None:
    with place.started("ask", "hi", "-v", replies=[says("Late.", fault={"kind": "silence"})]) as running:
        running.wait_for_stderr("HTTP 200")
        result = running.interrupt()
        assert (result.code, result.stdout) == (130, "")
        assert_left_alone(running)


def test_in_the_middle_of_the_stream(place: Place) -> None:
    with place.started("ask", "hi", "-o", "stream-json", replies=[HALF]) as running:
        read_until(running, "text")
        result = running.interrupt()
        assert result.code == 130
        (last,) = result.events
        assert (last["type"], last["status"], last["answer"]) == ("result", "interrupted", "")
        assert_left_alone(running)


def test_in_the_middle_of_the_stream_nothing_is_printed_into_a_pipe(place: Place) -> None:
    with place.started("ask", "hi", "-v", replies=[HALF]) as running:
        running.wait_for_stderr("HTTP 200")
        result = running.interrupt()
        assert (result.code, result.stdout) == (130, "")


def test_while_a_tool_runs(place: Place) -> None:
    """The pattern spans two lines: each file looks as if it matched and is searched line by line, for long."""
    place.settings("[limits]\nread_bytes = 8388608\nsearch_seconds = 25\nsearch_bytes = 1073741824\n")
    first = place.write("data/0.txt", b"a\n" * (4 << 20))
    for number in range(1, 40):
        os.link(first, place.project / f"data/{number}.txt")
    replies = [calls(call("search_files", pattern=r"a\na"))]
    with place.started("ask", "search", "-o", "stream-json", replies=replies) as running:
        read_until(running, "tool_call")
        result = running.interrupt(patience=15)  # well before the search would end by itself
        assert (result.code, result.events[-1]["status"]) == (130, "interrupted")
        assert len(running.simulator.requests) == 1


def test_in_the_wait_before_a_retry(place: Place) -> None:
    busy = {"http_error": {"name": "quota_per_minute", "retry_after": 100.0}}
    with place.started("ask", "hi", replies=[busy, says("Never asked for.")]) as running:
        running.wait_for_stderr("(Ctrl-C cancels)")
        result = running.interrupt()
        assert (result.code, result.stdout) == (130, "")
        assert "per minute" in result.stderr
        assert len(running.simulator.requests) == 1


@pytest.mark.parametrize("kind", ["tool_call", "tool_result"])
def test_around_a_write_the_file_is_old_or_new_and_nothing_else_is_left(place: Place, kind: str) -> None:
    old, new = b"old\n" * 1000, b"new\n" * 100_000
    place.write("data.txt", old)
    replies = [
        calls(call("read_file", path="data.txt")),
        calls(call("write_file", path="data.txt", content=new.decode()), text="Now I write."),
        says("Never.", delay_first=FOREVER),
    ]
    with place.started("ask", "write", "-y", "-o", "stream-json", replies=replies) as running:
        read_until(running, "text")
        read_until(running, kind)
        result = running.interrupt()
    last = result.events[-1]
    assert (result.code, last["status"]) == (130, "interrupted")
    written = place.files()
    assert list(written) == ["data.txt"]
    assert written["data.txt"] in (old, new)
    assert [change["path"] for change in last["files_changed"]] == ([] if written["data.txt"] == old else ["data.txt"])


@pytest.mark.parametrize("output", ["json", "text"])
def test_the_outcome_is_told_once(place: Place, output: str) -> None:
    with place.started("ask", "hi", "-o", output, replies=[says("Late.", delay_first=FOREVER)]) as running:
        running.wait_for_request()
        result = running.interrupt()
    if output == "json":
        assert (result.json["status"], result.json["answer"]) == ("interrupted", "")
    else:
        assert result.stdout == ""
        assert result.stderr.count("Interrupted.") == 1


def test_a_second_interrupt_changes_nothing(place: Place) -> None:
    with place.started("ask", "hi", replies=[says("Late.", delay_first=FOREVER)]) as running:
        running.wait_for_request()
        running.child.send_signal(signal.SIGINT)
        running.child.send_signal(signal.SIGINT)
        assert running.finish().code == 130


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_terminate_is_an_interrupt(place: Place, number: int) -> None:
    with place.started("ask", "hi", replies=[says("Late.", delay_first=FOREVER)]) as running:
        running.wait_for_request()
        running.child.send_signal(number)
        assert running.finish().code == 130
        assert_left_alone(running)


def test_nohup_goes_on_when_the_terminal_is_gone(place: Place) -> None:
    command = ("nohup", sys.executable, "-m", "gemcode")
    with place.started("ask", "hi", replies=[says("Late.", delay_first=2.0)], command=command) as running:
        running.wait_for_request()
        running.child.send_signal(signal.SIGHUP)
        assert running.finish().code == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_demo_that_is_ended_leaves_nothing_behind(place: Place, tmp_path: Path, number: int) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with place.started("demo", "--play", env={"TMPDIR": str(scratch)}) as running:
        running.wait_until(lambda: bool([*scratch.glob("gemcode-demo-*/state")]), "the scratch project")
        running.child.send_signal(number)
        assert running.finish().code in (0, 130)  # 0: it was over by then
    assert [*scratch.iterdir()] == []


def test_while_stdin_is_read(place: Place) -> None:
    with place.started("ask", "review", "-o", "json", stdin=subprocess.PIPE) as running:
        running.wait_for_stderr("reading stdin")
        result = running.interrupt()
        assert (result.code, result.json["status"]) == (130, "interrupted")
        assert result.requests == ()


@pytest.mark.parametrize("module", ["gemcode.terminal.safe", "pydantic", "gemcode.app", "google.genai.types"])
def test_while_the_program_loads(place: Place, module: str) -> None:
    """Wherever the signal hits, it ends the program without a traceback (the driver looks for one)."""
    command = (sys.executable, "-X", "importtime", "-m", "gemcode")
    with place.started("ask", "hi", replies=[says("Late.", delay_first=FOREVER)], command=command) as running:
        running.wait_for_stderr(f" {module}\n")
        result = running.interrupt()
        assert (result.code, result.stdout) == (130, "")
        assert "Aborted" not in result.stderr
