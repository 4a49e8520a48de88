"""Does the model go round in circles? The same calls with the same results are the signal; nothing else is. Pure.

A file that changed, the next page or a poll that shows something new give other results, so they are no loop.
"""

import hashlib
import json
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from gemcode.agent.messages import ToolCall, ToolMessage, ToolResult
from gemcode.frozen import frozen

REPEATS = 3
LONGEST_CYCLE = 8  # steps


@frozen
class Loop:
    """What repeats. `told`: the model was told so and went on all the same."""

    calls: tuple[ToolCall, ...]
    period: int
    told: bool

    def sentence(self, subject: str) -> str:
        """One line for a person; `subject` is what the last call was about."""
        name = self.calls[-1].name
        about = f"{name} {subject}" if subject != name else name
        if self.period == 1:
            return f"Same call, same result, {REPEATS + self.told} times: {about}."
        return f"The same {self.period} steps with the same results, {REPEATS + self.told} times: {about} and others."

    def note(self) -> str:
        """What the model is told, beside the result that it has seen before."""
        what = "This call" if self.period == 1 else f"This cycle of {self.period} steps"
        return (
            f"{what} gave the same result {REPEATS} times: doing it again will not help. Use what you have, try "
            "another way, or say what is missing."
        )


class LoopWatch:
    """Watches one turn, step by step. A step is all calls of one model answer: what runs together counts once."""

    def __init__(self) -> None:
        self._steps: deque[bytes] = deque(maxlen=REPEATS * LONGEST_CYCLE)
        self._since_told: int | None = None  # steps since the model was told; None: it has not been

    def see(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> Loop | None:
        """The loop that this step closes. A new one is to be told to the model, a `told` one is for a person."""
        self._steps.append(_fingerprint(calls, results))
        period = self._period()
        if period is None:
            self._since_told = None
            return None
        if self._since_told is None:
            self._since_told = 0
            return Loop(tuple(calls), period, told=False)
        self._since_told += 1
        return Loop(tuple(calls), period, told=True) if self._since_told >= period else None

    def forgive(self) -> None:
        """The person said to go on: count anew."""
        self._steps.clear()
        self._since_told = None

    def _period(self) -> int | None:
        steps = list(self._steps)
        for period in range(1, len(steps) // REPEATS + 1):
            if steps[-REPEATS * period :] == steps[-period:] * REPEATS:
                return period
        return None


def with_note(message: ToolMessage, note: str) -> ToolMessage:
    """The results with a note for the model in the last one."""
    last = message.results[-1]
    response = {**last.response, "notes": [*last.response.get("notes", ()), note]}
    return ToolMessage((*message.results[:-1], replace(last, response=response)))


def _fingerprint(calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> bytes:
    """Names, arguments and results; ids differ every time and say nothing."""
    digest = hashlib.sha256()
    for call, result in zip(calls, results, strict=True):
        text = json.dumps([call.name, call.args, result.response], sort_keys=True, default=str)
        digest.update(text.encode("ascii") + b"\n")
        for blob in result.media:
            digest.update(hashlib.sha256(blob.data).digest())
    return digest.digest()
