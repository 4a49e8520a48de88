"""Counters per tool: calls, successes, failures, denials, time, bytes; of a running agent or from session files."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gemcode.agent.transcript import CallEnded, Entry
from gemcode.frozen import frozen


@frozen
class ToolCount:
    """One row. Times are in milliseconds, without what a person took to answer."""

    name: str
    calls: int
    ok: int
    failed: int
    denied: int
    median_ms: float
    p95_ms: float
    bytes: int

    def as_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "calls": self.calls,
            "ok": self.ok,
            "failed": self.failed,
            "denied": self.denied,
            "median_ms": round(self.median_ms, 3),
            "p95_ms": round(self.p95_ms, 3),
            "bytes": self.bytes,
        }


@dataclass(slots=True)
class _Tally:
    ok: int = 0
    failed: int = 0
    denied: int = 0
    bytes: int = 0
    durations: list[float] = field(default_factory=list)  # of calls that ran


class Counters:
    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._tallies: dict[str, _Tally] = {}
        for entry in entries:
            if isinstance(entry, CallEnded):
                self.add(entry)

    def add(self, call: CallEnded) -> None:
        tally = self._tallies.setdefault(call.name, _Tally())
        tally.ok += call.ok
        tally.denied += call.kind == "denied"
        tally.failed += not call.ok and call.kind != "denied"
        tally.bytes += call.bytes
        if call.ok or call.duration_ms > 0:
            tally.durations.append(call.duration_ms)

    def rows(self) -> list[ToolCount]:
        """The most used tool first."""
        counts = [
            ToolCount(
                name,
                tally.ok + tally.failed + tally.denied,
                tally.ok,
                tally.failed,
                tally.denied,
                percentile(tally.durations, 0.5),
                percentile(tally.durations, 0.95),
                tally.bytes,
            )
            for name, tally in self._tallies.items()
        ]
        return sorted(counts, key=lambda count: (-count.calls, count.name))


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all values does not exceed; 0 for none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0
