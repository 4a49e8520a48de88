"""Two hundred turns over an unreliable network end where they should, without growing slow or large."""

import json
import os
import random
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gemcode.simulator.reply import Call, Fault, FaultKind, RecordedRequest, Reply, Text
from gemcode.simulator.server import running_simulator
from gemcode.simulator.service import Settings
from tests.e2e.program import Place

ROOT = Path(__file__).resolve().parents[2]
FAULTS: tuple[FaultKind, ...] = ("hang_up", "reset", "cut", "half_event", "garbage", "error_event", "bare_error_tail")
ERRORS = ("high_demand", "internal", "deadline", "quota_per_minute", "capacity")
WEAK = (Reply(), Reply(finish="MALFORMED_FUNCTION_CALL"), Reply(steps=(Text("hal"),), finish=None))
MOST_IN_A_ROW = 2  # fewer than the client gives up after


class Unreliable:
    """Answers every prompt in one to three steps with reads and writes, and fails at random places."""

    def __init__(self, seed: int, share: float) -> None:
        self._random = random.Random(seed)
        self._share = share
        self._failures = 0
        self._steps = 0

    def answer(self, request: RecordedRequest) -> Reply:
        if self._failures < MOST_IN_A_ROW and self._random.random() < self._share:
            self._failures += 1
            return self._failure()
        self._failures = 0
        return self._reply(bool(request.results))

    def _failure(self) -> Reply:
        kind = self._random.randrange(3)
        if kind == 0:
            return Reply(error=self._random.choice(ERRORS), retry_after=0.01)
        if kind == 1:
            steps = (Text("par"), Text("tial"), Call("write_file", {"path": "bad.txt", "content": "never"}))
            return Reply(steps=steps, fault=Fault(self._random.choice(FAULTS), after=self._random.randrange(3)))
        return self._random.choice(WEAK)

    def _reply(self, answered: bool) -> Reply:
        self._steps = self._steps + 1 if answered else 0
        if self._steps >= 2 or self._random.random() < 0.4:
            return Reply.says("The answer ", "is ", str(self._random.randrange(1000)))
        number = self._random.randrange(20)
        calls = [
            Call("read_file", {"path": f"data/{number}.txt"}),
            Call("search_files", {"pattern": f"line {number}"}),
            Call("write_file", {"path": "log.txt", "content": f"{number}\n", "mode": "append"}),
            Call("read_file", {"path": "missing.txt"}),
        ]
        return Reply.calls(*self._random.sample(calls, self._random.randint(1, 3)))


def travel(place: Place, seed: int, turns: int, share: float = 0.15) -> dict[str, Any]:
    for number in range(20):
        place.write(f"data/{number}.txt", "".join(f"line {line}\n" for line in range(number)))
    with running_simulator(Unreliable(seed, share), Settings(strict_ids=True)) as simulator:
        command = [
            sys.executable,
            "-m",
            "tests.e2e.longhaul",
            simulator.url,
            str(place.project),
            str(place.home),
            str(turns),
        ]
        environment = {"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8", "NO_PROXY": "127.0.0.1"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
        violations = [violation.message for violation in simulator.violations]
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["failed"] == []
    assert violations == []
    assert (result["turns"], result["same"]) == (turns, True)
    assert not (place.project / "bad.txt").exists(), "a call of a failed stream was run"
    return result


def test_forty_turns_with_faults_are_all_answered(place: Place) -> None:
    travel(place, seed=1, turns=40)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(100))
def test_two_hundred_turns_with_faults(place: Place, seed: int) -> None:
    result = travel(place, seed=1000 + seed, turns=200)
    grown = result["memories"][-1] - result["memories"][1]
    assert grown < 10 * 1024 * 1024, f"{grown} bytes more after 200 turns than after 20"


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_two_hundredth_turn_starts_about_as_fast_as_the_tenth(place: Place) -> None:
    result = travel(place, seed=7, turns=200, share=0.0)
    early, late = statistics.median(result["sent"][5:25]), statistics.median(result["sent"][-20:])
    assert late <= 1.5 * early, f"{early * 1000:.1f} ms at first, {late * 1000:.1f} ms at the end"
