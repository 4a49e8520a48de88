"""Benchmarks: every row of the budget, measured in one run together with its floor. `python -m bench` runs them all."""
