"""RESULTS.md: the machine, the rows, the growth. Text only; what it says is decided in budgets.py."""

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version

from bench.budgets import Result, Samples, typical

HOW = """\
Each row was measured in turns with its floor, in the same run. `median` and `spread` (fastest to slowest) are of all
rounds. `ratio` compares the lower quartiles of both, since other programs only ever make a run slower. A row is in
budget when its ratio is, or when the value itself is below the limit that was set in absolute terms. "bare
google-genai" is `bench/bare.py`: the SDK with nothing around it, and with every trick that gemcode uses. The server is
`bench/server.py`: raw sockets on loopback, answers made beforehand.
"""

_GATEWAY = "## Gateway"
_GATEWAY_HOW = """\
Through the gateway against the simulator asked directly, in turns, in the same run: an 80 KB request with 24 tools,
answered by a stream of 20 chunks. Latency and throughput are those of the least disturbed of five rounds.
"""

GROWTH = (
    ("Cost per tool step against history", "steps", "ask step", "bare step", "bare google-genai"),
    ("Listing, all files looked at, against tree size", "files", "listing whole", "listing git", "git ls-files"),
    ("Listing, one page, against tree size", "files", "listing page", "listing git", "git ls-files"),
    ("Loading a session against its length", "steps", "session load", "session floor", "json.loads of each line"),
    ("Diff shown against file size, 50 changes", "lines", "diff shown", "diff git", "git diff"),
)
SIZES = (1, 10, 100, 300, 1_000, 2_000, 10_000, 20_000, 100_000, 200_000, 1_000_000)


def document(found: Sequence[Result], samples: Samples, gateway: str = "") -> str:
    lines = ["# What it costs", "", _machine(), "", HOW]
    lines += [
        "| | median | spread | floor | ratio | budget | |",
        "|---|---|---|---|---|---|---|",
        *(_row(one) for one in found),
        "",
    ]
    lines += ["## Growth", ""]
    for title, what, value, floor, floor_name in GROWTH:
        lines += _growth(title, what, (value, floor, floor_name), samples)
    text = "\n".join(lines).rstrip() + "\n"
    return with_gateway(text, gateway) if gateway else text


def with_gateway(text: str, table: str) -> str:
    """The document with this as its last section."""
    return f"{text.partition(_GATEWAY)[0].rstrip()}\n\n{_GATEWAY}\n\n{_GATEWAY_HOW}\n{table}\n"


def _machine() -> str:
    git = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    rg = "ripgrep present" if shutil.which("rg") else "no ripgrep"
    parts = [
        datetime.now(UTC).strftime("%Y-%m-%d"),
        f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} processors",
        f"Python {platform.python_version()}",
        f"google-genai {version('google-genai')}",
        git,
        rg,
        f"load average {os.getloadavg()[0]:.1f}",
    ]
    return " · ".join(parts)


def number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _row(one: Result) -> str:
    row = one.row
    floor = f"{number(one.floor)} {row.unit} ({row.floor.name})" if one.floor is not None and row.floor else "—"
    ratio = f"{one.ratio:.2f} ×" if one.ratio is not None else "—"
    limits = [f"≤ {row.most:g} {row.unit}"] if row.most is not None else []
    limits += [f"≤ {row.most_ratio:.2f} ×"] if row.most_ratio is not None else []
    verdict = ("ok" if one.in_budget else "**over**") if limits else "—"
    spread = f"{number(one.low)}–{number(one.high)}"
    cells = (row.name, f"{number(one.median)} {row.unit}", spread, floor, ratio, " or ".join(limits) or "—", verdict)
    return f"| {' | '.join(cells)} |"


def _growth(title: str, what: str, names: tuple[str, str, str], samples: Samples) -> list[str]:
    value, floor, floor_name = names
    rows = []
    for size in SIZES:
        values, floors = samples.get(f"{value} {size}"), samples.get(f"{floor} {size}")
        if values and floors:
            rows.append(f"| {size:,} | {number(typical(values) * 1000)} ms | {number(typical(floors) * 1000)} ms |")
    return [f"### {title}", "", f"| {what} | gemcode | {floor_name} |", "|---|---|---|", *rows, ""] if rows else []
