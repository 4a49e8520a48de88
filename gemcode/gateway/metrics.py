"""Counters of one gateway, told as Prometheus text. No names of clients, no contents."""

from bisect import bisect_left
from collections import Counter

from gemcode.agent.messages import Usage

_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)
_HELP = {
    "requests_total": "Requests answered, by dialect and HTTP status.",
    "failures_total": "Requests or streams that failed, by dialect and kind.",
    "tokens_total": "Tokens as Gemini counts them, by kind.",
    "tool_calls_total": "Tool calls delivered to clients, by tool.",
    "tool_results_total": "Tool results received from clients, by tool and outcome.",
    "left_out_tools_total": "Hosted tools that were offered and can't be served, by dialect and tool.",
    "retries_total": "Requests repeated upstream before anything was sent, by reason.",
    "sentinel_signatures_total": "Steps sent upstream with the escape in place of a thought signature, by dialect.",
}
_TOOL_LIMIT = 500  # names come from clients: beyond so many they count as one


class Metrics:
    """One gateway's counters; everything runs in one event loop, so nothing is locked."""

    def __init__(self) -> None:
        self._counters: dict[str, Counter[tuple[tuple[str, str], ...]]] = {name: Counter() for name in _HELP}
        self._tools: set[str] = set()
        self._buckets = [0] * (len(_BUCKETS) + 1)
        self._seconds = 0.0
        self.active = 0

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        if amount:
            self._counters[name][tuple(labels.items())] += amount

    def value(self, name: str, **labels: str) -> int:
        wanted = set(labels.items())
        return sum(count for key, count in self._counters[name].items() if wanted <= set(key))

    def tool(self, name: str) -> str:
        if name in self._tools or len(self._tools) < _TOOL_LIMIT:
            self._tools.add(name)
            return name
        return "other"

    def tokens(self, usage: Usage) -> None:
        for kind in ("prompt", "cached", "output", "thought"):
            self.count("tokens_total", getattr(usage, kind), kind=kind)

    def latency(self, seconds: float) -> None:
        self._buckets[bisect_left(_BUCKETS, seconds)] += 1
        self._seconds += seconds

    def text(self) -> str:
        lines: list[str] = []
        for name, help_text in _HELP.items():
            full = f"gemcode_gateway_{name}"
            lines += [f"# HELP {full} {help_text}", f"# TYPE {full} counter"]
            lines += [f"{full}{_labels(key)} {count}" for key, count in sorted(self._counters[name].items())]
        name = "gemcode_gateway_request_seconds"
        lines += [f"# HELP {name} Time from request to the end of its answer.", f"# TYPE {name} histogram"]
        total = 0
        for limit, count in zip((*_BUCKETS, "+Inf"), self._buckets, strict=True):
            total += count
            lines.append(f'{name}_bucket{{le="{limit}"}} {total}')
        lines += [f"{name}_sum {self._seconds:.6f}", f"{name}_count {total}"]
        name = "gemcode_gateway_active_requests"
        lines += [f"# HELP {name} Requests under way.", f"# TYPE {name} gauge", f"{name} {self.active}"]
        return "\n".join(lines) + "\n"


def _labels(key: tuple[tuple[str, str], ...]) -> str:
    if not key:
        return ""
    pairs = (f'{name}="{_escape(value)}"' for name, value in key)
    return "{" + ",".join(pairs) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
