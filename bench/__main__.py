"""`python -m bench [--quick] [EXPERIMENT…]`: run, print, write RESULTS.md; exit code 1 when a row is over its budget.

A quick run, or one of some experiments only, is information: it writes nothing and always exits with 0.
"""

import sys
import time
from pathlib import Path

from bench.budgets import results
from bench.experiments import EXPERIMENTS, LONG, Bench, Measured
from bench.report import document
from bench.server import ScriptedServer

RESULTS = Path(__file__).with_name("RESULTS.md")
GATEWAY = "gateway"


def main(arguments: list[str]) -> int:
    quick = "--quick" in arguments
    wanted = [name for name in arguments if name != "--quick"]
    known = [*EXPERIMENTS, *LONG, GATEWAY]
    if unknown := set(wanted) - set(known):
        print(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    bench = Bench(ScriptedServer().start(), Measured(), quick)
    for name, experiment in (EXPERIMENTS | LONG).items():
        if name in (wanted or EXPERIMENTS):
            started = time.perf_counter()
            experiment(bench)
            print(f"{name}: {time.perf_counter() - started:.0f} s", file=sys.stderr)
    table, over = _gateway(quick) if not wanted or GATEWAY in wanted else ("", [])
    found = results(bench.measured.samples)
    text = document(found, bench.measured.samples, table)
    print(text)
    if quick or wanted:
        return 0
    RESULTS.write_text(text, encoding="utf-8")
    over += [one.row.name for one in found if not one.in_budget]
    if over:
        print(f"over budget: {'; '.join(over)}", file=sys.stderr)
    return 1 if over else 0


def _gateway(quick: bool) -> tuple[str, list[str]]:
    """The gateway's own benchmark: its table, and what is over budget. Loaded last, since it is large: the memory of
    a program that is measured begins with that of the one which started it."""
    from bench import gateway

    rows = gateway.measure(quick)
    return gateway.table(rows), [f"gateway, {row.name}" for row in rows if not row.ok]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
