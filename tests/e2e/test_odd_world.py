"""A network and a machine that are odd: no descriptor left, an address that swallows everything, a program that was
stopped for a while, a wall clock that jumps. Each run ends in time, as documented, with each text once."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import PATIENCE, Place, Running, call, calls, says
from tests.e2e.test_network import ANSWER, GOOD, MINUTE, quota, refused
from tests.e2e.test_raw_network import GOOD as GOOD_BYTES
from tests.e2e.test_raw_network import wire

ODD = (sys.executable, str(Path(__file__).with_name("odd_world.py")))
STOPPED = 3.0  # seconds for which the program is stopped: longer than every wait in these tests


@contextmanager
def black_hole(family: socket.AddressFamily, host: str, port: int = 0) -> Iterator[int]:
    """A port that takes no connection and refuses none: its queue is full. Gives its number."""
    with socket.socket(family) as listener:
        listener.bind((host, port))
        listener.listen(0)
        address = listener.getsockname()[:2]
        waiting = []
        try:
            for _ in range(8):
                one = socket.socket(family)
                waiting.append(one)
                one.settimeout(0.2)
                try:
                    one.connect(address)
                except TimeoutError:
                    break
            else:
                pytest.skip("a full queue refuses connections here")
            yield address[1]
        finally:
            for one in waiting:
                one.close()


def test_an_address_that_swallows_everything_is_passed_over_for_the_next(place: Place) -> None:
    with wire(GOOD_BYTES) as server:
        try:
            with black_hole(socket.AF_INET6, "::1", server.port):
                url = f"http://localhost:{server.port}"
                env = {"GOOGLE_GEMINI_BASE_URL": url, "ODD_ADDRESSES": "::1,127.0.0.1"}
                result = place.ask("hi", env=env, command=ODD)
        except OSError:
            pytest.skip("no IPv6 here")
    assert (result.code, result.stdout, len(server.requests)) == (0, ANSWER, 1)


def test_a_server_that_swallows_everything_is_given_up_in_time(place: Place) -> None:
    with black_hole(socket.AF_INET, "127.0.0.1") as port:
        result = place.ask("hi", "--timeout", "2", env={"GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{port}"})
    assert (result.code, result.stdout) == (4, "")
    assert "✗ Stopped after 2 s.\n  " in result.stderr


def test_no_descriptor_left_for_the_connection_is_said(place: Place) -> None:
    with wire(GOOD_BYTES) as server:
        url = f"http://localhost:{server.port}"
        env = {"GOOGLE_GEMINI_BASE_URL": url, "ODD_ADDRESSES": "127.0.0.1", "ODD_FILES": "none"}
        result = place.ask("hi", env=env, command=ODD)
    assert (result.code, result.stdout, server.requests) == (1, "", [])
    assert "✗ Cannot reach the API: too many files are open.\n  Raise the limit (ulimit -n)" in result.stderr
    assert place.ask("hi", replies=[GOOD]).stdout == ANSWER


def stop_for_a_while(running: Running) -> None:
    """As if the lid was closed: the time goes on, the program does not."""
    running.child.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, running.child.pid, os.WSTOPPED | os.WNOWAIT)
    time.sleep(STOPPED)
    running.child.send_signal(signal.SIGCONT)


def test_stopped_while_it_waits_for_the_first_byte(place: Place) -> None:
    with place.started("ask", "hi", replies=[says("All ", "good.", delay_first=2.0)]) as running:
        running.wait_for_request()
        stop_for_a_while(running)
        result = running.finish()
    assert (result.code, result.stdout, len(result.requests)) == (0, ANSWER, 1)


@pytest.mark.parametrize("patience", [60, 1], ids=["patient", "impatient"])
def test_stopped_in_the_middle_of_an_answer(place: Place, patience: int) -> None:
    """What came meanwhile is taken up; where the silence counted as too long, the answer is asked for again."""
    place.settings(f"read_timeout = {patience}\n")
    output = place.base / "output.jsonl"
    replies = [says("All ", "good.", delay_between=0.5), GOOD]
    with (
        output.open("wb") as file,
        place.started("ask", "hi", "-o", "stream-json", replies=replies, stdout=file.fileno()) as running,
    ):
        running.wait_until(lambda: b"All" in output.read_bytes(), "the first text")
        stop_for_a_while(running)
        result = running.finish()
    events = [json.loads(line) for line in output.read_text().splitlines()]
    last_retry = max((number for number, each in enumerate(events) if each["type"] == "retry"), default=-1)
    text = "".join(each["text"] for each in events[last_retry + 1 :] if each["type"] == "text")
    assert (result.code, text, events[-1]["answer"]) == (0, "All good.", "All good.")
    assert len(result.requests) == 1 + (last_retry >= 0)


def test_stopped_while_it_counts_down_to_the_next_try(place: Place) -> None:
    with place.started("ask", "hi", replies=[quota(MINUTE, "2s"), GOOD]) as running:
        running.wait_for_stderr("Try 2 of 5")
        stop_for_a_while(running)
        result = running.finish()
    assert (result.code, result.stdout, len(result.requests)) == (0, ANSWER, 2)


def test_a_time_limit_that_passed_meanwhile_ends_the_turn(place: Place) -> None:
    with place.started("ask", "hi", "--timeout", "2", replies=[says("Late.", delay_first=PATIENCE)]) as running:
        running.wait_for_request()
        stop_for_a_while(running)
        result = running.finish()
    assert (result.code, result.stdout) == (4, "")
    assert "✗ Stopped after 2 s." in result.stderr


YEAR = 365 * 86_400
CLOCKS = {
    "an hour ahead": "3600",
    "an hour behind": "-3600",
    "years ahead": str(20 * YEAR),
    "decades behind": str(-40 * YEAR),
    "to and fro": f"0,{YEAR},-{YEAR},3600,-3600",
}


@pytest.mark.parametrize("clock", CLOCKS.values(), ids=CLOCKS)
def test_a_wall_clock_that_jumps_breaks_nothing(place: Place, clock: str) -> None:
    """Waits, retries, sessions, audit, rate limits and retention, with the clock off or jumping at each look at it."""
    place.write("a.txt", "alpha\n")
    before = place.ask("first", "-o", "json", replies=[says("One.")]).json["session_id"]
    work = [
        calls(call("read_file", path="a.txt")),
        quota(MINUTE, "0.2s"),
        calls(call("write_file", path="b.txt", content="beta\n")),
        refused(503),
        says("Two."),
    ]
    odd: dict[str, Any] = {"env": {"ODD_CLOCK": clock}, "command": ODD}
    result = place.ask("second", "-y", "-o", "json", replies=work, **odd)
    assert (result.code, result.json["answer"], len(result.requests)) == (0, "Two.", 5)
    assert place.files() == {"a.txt": b"alpha\n", "b.txt": b"beta\n"}
    session = result.json["session_id"]
    third = place.ask("third", "--resume", session, "-o", "json", replies=[says("Three.")], **odd)
    assert (third.code, third.json["answer"], third.json["session_id"]) == (0, "Three.", session)
    assert {each["id"] for each in json.loads(place.run("sessions", "list", "--json").stdout)} == {before, session}
    assert place.run("sessions", **odd).code == 0
    assert place.run("stats", "--json", **odd).code == 0
    assert place.run("audit", "verify", **odd).code == 0
    assert place.run("undo", "--yes", **odd).code == 0
    assert place.files() == {"a.txt": b"alpha\n"}


def test_no_wait_is_measured_with_the_wall_clock() -> None:
    """Where the program reads the wall clock at all: to note when something happened, and to tell how long ago."""
    root = Path(__file__).resolve().parents[2] / "gemcode"
    found = subprocess.run(
        ["grep", "-rlE", r"\btime\.time\(|datetime\.(now|utcnow)\(", "--include=*.py", str(root)],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    rooms = {str(Path(line).relative_to(root)) for line in found.splitlines()}
    assert not {room for room in rooms if room.startswith(("gemini/", "tools/", "terminal/"))}
    assert {room for room in rooms if room.startswith("agent/")} <= {"agent/session.py"}
