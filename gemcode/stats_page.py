"""The statistics as one self-contained page with plots. Pure: it loads nothing, and escapes every name."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from gemcode.agent.counters import percentile
from gemcode.stats import DAY_HEADINGS, TOOL_HEADINGS, Day, Stats, day_rows, tool_rows

_COLOURS = ("#4878cf", "#8fb4e8", "#d1642e", "#e0a46c")
_WIDTH, _HEIGHT, _LEFT, _BASE = 720, 180, 64, 150
_STYLE = """\
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 760px; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .2rem .5rem; border-bottom: 1px solid #8884; }
th:first-child, td:first-child { text-align: left; }
svg { width: 100%; height: auto; } svg text { fill: currentColor; font-size: 11px; }
i { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 1em; }\
"""


def as_html(stats: Stats) -> str:
    """Plots per day, then the tables. No script, no link, no font, no image from outside."""
    days = stats.days
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>gemcode stats</title>\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<style>{_STYLE}</style></head>\n<body><h1>gemcode stats</h1>\n"
        f"<p>{stats.sessions} sessions, {sum(day.turns for day in days)} turns, "
        f"${sum(day.cost_usd for day in days):.4f} in {len(days)} days.</p>\n"
        + "\n".join(_plots(days))
        + f"\n<h2>Tools</h2>\n{_table(TOOL_HEADINGS, tool_rows(stats.tools))}"
        + f"\n<h2>Days</h2>\n{_table(DAY_HEADINGS, day_rows(days))}\n</body></html>\n"
    )


def _plots(days: Sequence[Day]) -> Iterator[str]:
    yield _bars(
        "Tokens per day",
        days,
        {
            "new input": [day.usage.prompt - day.usage.cached for day in days],
            "cached input": [day.usage.cached for day in days],
            "output": [day.usage.output for day in days],
            "thinking": [day.usage.thought for day in days],
        },
    )
    yield _bars("Cost per day (USD)", days, {"cost": [day.cost_usd for day in days]})
    medians = [percentile(day.latencies_ms, 0.5) for day in days]
    slowest = [percentile(day.latencies_ms, 0.95) for day in days]
    yield _bars("Latency of answers (ms)", days, {"median": medians, "p95": slowest}, stacked=False)
    outcomes = {
        "ok": [day.ok for day in days],
        "failed": [day.failed for day in days],
        "denied": [day.denied for day in days],
    }
    yield _bars("Tool calls per day", days, outcomes)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in headings)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _bars(title: str, days: Sequence[Day], series: Mapping[str, Sequence[float]], *, stacked: bool = True) -> str:
    """One plot: bars on top of each other, or side by side."""
    if stacked:
        top = max((sum(values) for values in zip(*series.values(), strict=True)), default=0.0) or 1.0
    else:
        top = max((max(values, default=0.0) for values in series.values()), default=0.0) or 1.0
    slot = (_WIDTH - _LEFT) / max(len(days), 1)
    width = min(slot * 0.8, 40.0) / (1 if stacked else len(series))
    shapes = []
    for index, day in enumerate(days):
        height = 0.0
        for number, (name, values) in enumerate(series.items()):
            length = values[index] / top * (_BASE - 10)
            x = _LEFT + index * slot + (0 if stacked else number * width)
            tip = (
                f"{day.date} {name}: {values[index]:,.4g}" if top < 100 else f"{day.date} {name}: {values[index]:,.0f}"
            )
            shapes.append(
                f'<rect x="{x:.1f}" y="{_BASE - height - length:.1f}" width="{max(width - 1, 1):.1f}" '
                f'height="{length:.1f}" fill="{_COLOURS[number]}"><title>{escape(tip)}</title></rect>'
            )
            height += length if stacked else 0.0
    shapes += _axis(days, top, slot)
    key = "".join(
        f'<i style="background:{colour}"></i>{escape(name)}' for name, colour in zip(series, _COLOURS, strict=False)
    )
    picture = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">{"".join(shapes)}</svg>'
    return f"<h2>{escape(title)}</h2>\n<p>{key}</p>\n{picture}"


def _axis(days: Sequence[Day], top: float, slot: float) -> list[str]:
    shapes = [
        f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{_BASE}" y2="{_BASE}" stroke="currentColor"/>',
        f'<text x="{_LEFT - 6}" y="18" text-anchor="end">{_number(top, top)}</text>',
        f'<text x="{_LEFT - 6}" y="{_BASE}" text-anchor="end">0</text>',
    ]
    every = max(1, len(days) // 10)
    for index in range(0, len(days), every):
        shapes.append(f'<text x="{_LEFT + index * slot:.1f}" y="{_BASE + 16}">{days[index].date:%m-%d}</text>')
    return shapes


def _number(value: float, top: float) -> str:
    return f"{value:,.4g}" if top < 100 else f"{value:,.0f}"
