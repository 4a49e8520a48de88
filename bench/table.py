"""The README's comparison, made from RESULTS.md: only what was measured here, beside the figures taken of others.

`python -m bench.table` prints it.
"""

import sys
from pathlib import Path

from bench.budgets import ROWS

RESULTS = Path(__file__).with_name("RESULTS.md")
PEERS = (
    "gemini-cli 0.61 and the best of llm, aider, mini-swe-agent: measured in November 2026 on another two-core machine."
)


def comparison(results: str) -> str:
    """The table in markdown. Rows that the results do not hold are left out."""
    measured = {}
    for line in results.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 7:
            measured[cells[0]] = cells
    lines = ["| | gemcode | floor | gemini-cli | best other |", "|---|---|---|---|---|"]
    for row in ROWS:
        if row.name in measured and any(row.peers):
            _, median, _, floor, *_ = measured[row.name]
            lines.append(f"| {' | '.join([row.name, median, floor, *(peer or '—' for peer in row.peers)])} |")
    date = next((line.split(" · ")[0] for line in results.splitlines() if " · " in line), "")
    return "\n".join([*lines, "", f"gemcode and floors: `make bench`, {date}. {PEERS}"]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(comparison(RESULTS.read_text(encoding="utf-8")))
