"""kill -9 at any moment of a busy session, then --continue: a valid conversation in which nothing told is missing."""

import json
import random
import subprocess
import time
from typing import Any

import pytest

from gemcode.simulator.reply import Call, RecordedRequest, Reply, Text
from tests.e2e.program import PATIENCE, Place, says


class Busy:
    """Reads and appends in turns, several calls a step, and says something now and then; never at a loss."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def answer(self, request: RecordedRequest) -> Reply:
        number = self._random.randrange(10**9)
        if request.number % 5 == 0:
            return Reply(steps=(Text(f"said {number}"),))
        calls = [
            Call("write_file", {"path": "log.txt", "content": f"{number}\n", "mode": "append"}),
            Call("read_file", {"path": "log.txt"}),
            Call("list_files", {}),
        ]
        self._random.shuffle(calls)
        return Reply(steps=(Text(f"step {number}"), *calls[: self._random.randint(1, 3)]))


def told(output: bytes) -> list[dict[str, Any]]:
    """The events that came out whole before the end."""
    return [json.loads(line) for line in output.split(b"\n")[:-1]]


def killed(place: Place, seed: int, *flags: str) -> tuple[list[dict[str, Any]], bool]:
    """A run that is killed at some moment; what it had told, and whether anything of it was refused."""
    generator = random.Random(seed)
    with place.started("ask", f"prompt {seed}", "-y", "-o", "stream-json", *flags, replies=Busy(seed)) as running:
        running.wait_until(
            lambda: len(running.simulator.requests) >= generator.randint(1, 6) or running.child.poll() is not None
        )
        time.sleep(generator.random() * 0.05)
        running.child.kill()
        output, _ = running.child.communicate(timeout=PATIENCE)
        return told(output), bool(running.simulator.violations)


def check_continued(place: Place, events: list[dict[str, Any]], *, written: set[str]) -> set[str]:
    """Go on, and look at the request: each result that was told is there, and each write that was told happened."""
    result = place.ask("and now?", "--continue", replies=[says("Fine.")])
    assert (result.code, result.stdout) == (0, "Fine.\n"), result.stderr
    (request,) = result.requests
    parts = [part for content in request.contents for part in content["parts"]]
    results = {part["functionResponse"]["id"]: part["functionResponse"] for part in parts if "functionResponse" in part}
    calls = {part["functionCall"]["id"]: part["functionCall"] for part in parts if "functionCall" in part}
    assert results.keys() == calls.keys()
    log = (place.project / "log.txt").read_text() if (place.project / "log.txt").exists() else ""
    lines = log.splitlines()
    assert len(set(lines)) == len(lines), "a write was done twice"
    for event in events:
        if event["type"] == "tool_result" and event["ok"]:
            assert event["id"] in results
            if event["name"] == "write_file":
                written.add(calls[event["id"]]["args"]["content"].strip())
    assert written <= set(lines), "a write that was told is gone"
    texts = [part["text"] for part in parts if "text" in part]
    for event in events:
        if event["type"] == "result" and event["status"] == "ok":
            assert event["answer"] in texts
    return written


def kill_and_continue(place: Place, seeds: range) -> None:
    assert place.ask("begin", replies=[says("Begun.")]).code == 0
    written: set[str] = set()
    for seed in seeds:
        events, refused = killed(place, seed, "--continue")
        assert not refused
        written = check_continued(place, events, written=written)
    history = subprocess.run(["grep", "-c", "", str(place.project / "log.txt")], capture_output=True, check=False)
    assert int(history.stdout or b"0") >= len(written)


def test_killed_at_some_moments(place: Place) -> None:
    kill_and_continue(place, range(6))


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_killed_at_two_hundred_moments(place: Place, first: int) -> None:
    kill_and_continue(place, range(100 + first, 120 + first))


def test_killed_before_the_first_answer_nothing_is_in_the_way(place: Place) -> None:
    with place.started("ask", "hello", replies=[says("x", delay_first=30.0)]) as running:
        running.wait_for_request()
        running.child.kill()
        running.child.wait()
    result = place.ask("again", "--continue", replies=[says("Fine.")])
    assert result.code == 0
    assert [content["parts"][0]["text"] for content in result.requests[0].contents] == ["hello", "again"]
