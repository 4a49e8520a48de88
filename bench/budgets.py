"""The budget: one row per promise, with its floor, its limit, and what others took. It measures nothing itself."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Samples = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Floor:
    """What a row is compared with: its samples, and what it took where the limits were set."""

    samples: str
    name: str
    reference: float


@dataclass(frozen=True, slots=True)
class Row:
    """One promise. `most` is the limit in the row's unit, as set on a machine where the floor took its `reference`.

    The ratio of the two is what a run is held to; a value below `most` itself is in budget on any machine.
    """

    name: str
    samples: str
    unit: str
    floor: Floor | None = None
    most: float | None = None
    ratio: float | None = None
    peers: tuple[str, str] = ("", "")  # gemini-cli, the best other one

    @property
    def most_ratio(self) -> float | None:
        if self.ratio is not None or self.floor is None or self.most is None:
            return self.ratio
        return self.most / self.floor.reference


def _python(samples: str) -> Floor:
    return Floor(samples, "bare Python", 8)


def _bare(samples: str, reference: float) -> Floor:
    return Floor(f"bare {samples}", "bare google-genai", reference)


_GIT = Floor("listing git 100000", "git ls-files", 70)
_COPY = Floor("writing floor", "copy, fsync, rename", 0.8)

ROWS = (
    Row("--version", "version", "ms", _python("python"), ratio=3.0, peers=("976 ms", "380 ms (llm)")),
    Row(
        "ask: start → request sent",
        "ask request",
        "ms",
        _bare("request", 285),
        ratio=1.15,
        peers=("1056 ms", "366 ms (llm)"),
    ),
    Row("the same with flags", "flags request", "ms", _bare("request", 285)),
    Row("ask: last byte → exit", "ask exit", "ms", _bare("exit", 14), 20, peers=("77 ms", "65 ms (llm)")),
    Row(
        "chat: start → prompt ready",
        "chat prompt",
        "ms",
        _python("chat python"),
        120,
        peers=("1119 ms", "344 ms (llm)"),
    ),
    Row("chat: first Enter → request, once loaded", "chat first enter", "ms", _bare("enter", 1), 10),
    Row("chat: later Enter → request", "chat enter", "ms", _bare("enter", 1), 10, peers=("27 ms", "24 ms")),
    Row("overhead per tool step, of 300", "ask step", "ms", _bare("step", 1.07), 2.5, peers=("5.9 ms", "10 ms")),
    Row("the same at step 300", "ask step 300", "ms", _bare("step", 1.07), 2.5),
    Row("ten parallel reads in a step", "ask parallel", "ms", _bare("parallel", 1.3), 4, peers=("15 ms", "15 ms")),
    Row("peak memory, ask", "ask peak", "MB", _bare("peak", 53), 70, peers=("346 MB", "60 MB (llm)")),
    Row("first request body, all tools", "flags body", "KB", None, 6, peers=("47.9 KB", "3.3 KB (mini-swe-agent)")),
    Row(
        "2,000 chunks piped: processor time on top",
        "ask chunks",
        "ms",
        _bare("chunks", 235),
        270,
        peers=("336 ms", "100 ms"),
    ),
    Row(
        "2,000 chunks drawn: processor time on top",
        "drawn cpu",
        "ms",
        _bare("chunks", 235),
        900,
        peers=("2960 ms", "4100 ms (aider)"),
    ),
    Row(
        "2,000 chunks drawn: bytes for 80 KB of text",
        "drawn bytes",
        "KB",
        None,
        250,
        peers=("1150 KB", "180 KB (aider)"),
    ),
    Row("list_files, a page of 100,000 files", "listing page 100000", "ms", _GIT, 250),
    Row("list_files, all of 100,000 files looked at", "listing whole 100000", "ms", _GIT, 250, peers=("5553 ms", "")),
    Row("write_file, 1 MB", "writing write_file", "ms", _COPY, ratio=8.0),
    Row("diff of 1 MB, 20,000 lines, 50 changes", "diff shown 20000", "ms", _python("diff python 20000"), 150),
)

UNITS = {"ms": 1000.0, "MB": 1 / (1024 * 1024), "KB": 1 / 1024}


def typical(values: Sequence[float]) -> float:
    return statistics.median(values)


def undisturbed(values: Sequence[float]) -> float:
    """The lower quartile: other programs only ever make a run slower, so the faster half says what the code costs."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 4]


@dataclass(frozen=True, slots=True)
class Result:
    """A row as measured, in the row's unit."""

    row: Row
    median: float
    low: float
    high: float
    best: float
    floor: float | None
    ratio: float | None
    rounds: int

    @property
    def in_budget(self) -> bool:
        if self.row.most is None and self.row.ratio is None:
            return True  # for information
        by_value = self.row.most is not None and self.best <= self.row.most
        limit = self.row.most_ratio
        return by_value or (limit is not None and self.ratio is not None and self.ratio <= limit)


def result(row: Row, samples: Samples) -> Result | None:
    """None for a row that was not measured."""
    values = samples.get(row.samples)
    if not values:
        return None
    scale = UNITS[row.unit]
    floors = (samples.get(row.floor.samples) if row.floor else None) or ()
    return Result(
        row,
        typical(values) * scale,
        min(values) * scale,
        max(values) * scale,
        undisturbed(values) * scale,
        typical(floors) * scale if floors else None,
        undisturbed(values) / undisturbed(floors) if floors else None,
        len(values),
    )


def results(samples: Samples) -> list[Result]:
    return [found for row in ROWS if (found := result(row, samples)) is not None]
