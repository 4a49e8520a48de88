"""What the saved sessions add up to, per tool and per day: as a table and as JSON. Pure: lines in, values out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from gemcode.agent.counters import Counters, ToolCount, percentile
from gemcode.agent.messages import Usage
from gemcode.agent.session import Line
from gemcode.agent.transcript import AttemptFailed, CallEnded, Opened, StepTaken, TurnEnded
from gemcode.frozen import frozen


@dataclass(slots=True)
class Day:
    """One day's work. `cost_usd` counts what has a known price; `unpriced` are the steps that have none."""

    date: date
    turns: int = 0
    usage: Usage = Usage()
    cost_usd: float = 0.0
    unpriced: int = 0
    latencies_ms: list[float] = field(default_factory=list)  # of model answers
    ok: int = 0
    failed: int = 0
    denied: int = 0

    def add(self, entry: object) -> None:
        match entry:
            case TurnEnded():
                self.turns += 1
            case StepTaken() | AttemptFailed():
                self.usage += entry.usage
                self.cost_usd += entry.cost_usd or 0.0
                self.unpriced += entry.cost_usd is None
                if isinstance(entry, StepTaken):
                    self.latencies_ms.append(entry.duration_ms)
            case CallEnded():
                self.ok += entry.ok
                self.denied += entry.kind == "denied"
                self.failed += not entry.ok and entry.kind != "denied"
            case _:
                pass


@frozen
class Stats:
    sessions: int
    days: tuple[Day, ...]
    tools: tuple[ToolCount, ...]


def collect(sessions: Iterable[tuple[str, Sequence[Line]]]) -> Stats:
    """Add up all sessions. What a copy of a session took over from the original counts once."""
    days: dict[date, Day] = {}
    counters = Counters()
    count = 0
    for _, lines in sessions:
        count += 1
        first = next((line for line in lines if isinstance(line.entry, Opened)), None)
        since = first.time if first and isinstance(first.entry, Opened) and first.entry.forked_from else 0.0
        for line in lines:
            if line.time < since:
                continue
            today = datetime.fromtimestamp(line.time).date()
            days.setdefault(today, Day(today)).add(line.entry)
            if isinstance(line.entry, CallEnded):
                counters.add(line.entry)
    return Stats(count, tuple(days[day] for day in sorted(days)), tuple(counters.rows()))


def as_json(stats: Stats) -> dict[str, object]:
    return {
        "schema": 1,
        "sessions": stats.sessions,
        "days": [
            {
                "date": day.date.isoformat(),
                "turns": day.turns,
                "prompt_tokens": day.usage.prompt,
                "cached_tokens": day.usage.cached,
                "output_tokens": day.usage.output,
                "thought_tokens": day.usage.thought,
                "cost_usd": round(day.cost_usd, 6),
                "unpriced_steps": day.unpriced,
                "latency_median_ms": round(percentile(day.latencies_ms, 0.5), 3),
                "latency_p95_ms": round(percentile(day.latencies_ms, 0.95), 3),
                "calls_ok": day.ok,
                "calls_failed": day.failed,
                "calls_denied": day.denied,
            }
            for day in stats.days
        ],
        "tools": [tool.as_json() for tool in stats.tools],
    }


TOOL_HEADINGS = ("tool", "calls", "ok", "failed", "denied", "median", "p95", "bytes")
DAY_HEADINGS = ("day", "turns", "in", "cached", "out", "cost", "median", "p95")


def tool_rows(tools: Iterable[ToolCount]) -> list[tuple[str, ...]]:
    """The cells of the table of tools, without its headings."""
    return [
        (
            tool.name,
            f"{tool.calls:,}",
            f"{tool.ok:,}",
            f"{tool.failed:,}",
            f"{tool.denied:,}",
            f"{tool.median_ms:,.0f} ms",
            f"{tool.p95_ms:,.0f} ms",
            f"{tool.bytes:,}",
        )
        for tool in tools
    ]


def day_rows(days: Iterable[Day]) -> list[tuple[str, ...]]:
    return [
        (
            day.date.isoformat(),
            f"{day.turns:,}",
            f"{day.usage.prompt:,}",
            f"{100 * day.usage.cached // day.usage.prompt if day.usage.prompt else 0}%",
            f"{day.usage.output + day.usage.thought:,}",
            f"${day.cost_usd:.4f}" + ("+" if day.unpriced else ""),
            f"{percentile(day.latencies_ms, 0.5):,.0f} ms",
            f"{percentile(day.latencies_ms, 0.95):,.0f} ms",
        )
        for day in days
    ]


def aligned(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in plain text: the first column to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in (headings, *rows)) for column in range(len(headings))]
    lines = []
    for row in (headings, *rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"
