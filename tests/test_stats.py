import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gemcode import stats, stats_page
from gemcode.agent.counters import Counters, percentile
from gemcode.agent.messages import Usage
from gemcode.agent.session import Line
from gemcode.agent.transcript import CallEnded, Opened, StepTaken, TurnEnded
from tests.agent.test_session import busy_agent, run, store

DAY = 86_400.0
NOON = 1_790_000_000.0


def call(name: str, kind: str = "", duration: float = 1.0, size: int = 10) -> CallEnded:
    return CallEnded("c", name, "a", not kind, kind, duration, size)


def lines(*entries: object, when: float = NOON) -> list[Line]:
    return [Line(when, entry) for entry in entries]  # type: ignore[arg-type]  # any entry, as the test writes it


def test_each_tool_is_counted_by_how_its_calls_ended() -> None:
    counters = Counters([call("read", duration=float(n)) for n in range(1, 101)])
    for kind in ("denied", "denied", "conflict", "cancelled"):
        counters.add(call("write", kind, 0.0))
    read, write = counters.rows()
    assert (read.name, read.calls, read.ok, read.failed, read.denied, read.bytes) == ("read", 100, 100, 0, 0, 1000)
    assert (read.median_ms, read.p95_ms) == (50.0, 95.0)
    assert (write.calls, write.ok, write.failed, write.denied, write.median_ms) == (4, 0, 2, 2, 0.0)


@pytest.mark.parametrize(
    ("values", "share", "found"), [([], 0.5, 0), ([7], 0.95, 7), ([3, 1, 2], 0.5, 2), ([1, 2], 0.5, 1), ([1, 2], 1, 2)]
)
def test_a_percentile_is_a_value_that_was_measured(values: list[float], share: float, found: float) -> None:
    assert percentile(values, share) == found


def test_days_add_up_over_sessions() -> None:
    first = lines(
        Opened("a", "1", ""), StepTaken("m", Usage(100, 40, 10, 5, 0, 115), 0.5, "STOP", 20.0), TurnEnded("ok", 1, 1)
    )
    second = lines(
        StepTaken("m", Usage(1, 0, 1, 0, 0, 2), None, "STOP", 40.0), call("read"), call("read", "io"), when=NOON + DAY
    )
    found = stats.collect([("a", first), ("b", second), ("c", first)])
    assert (found.sessions, len(found.days)) == (3, 2)
    today = found.days[0]
    assert (today.turns, today.usage.prompt, today.cost_usd, today.unpriced) == (2, 200, 1.0, 0)
    assert (found.days[1].unpriced, found.days[1].ok, found.days[1].failed) == (1, 1, 1)
    data = json.loads(json.dumps(stats.as_json(found)))
    assert data["days"][0]["cached_tokens"] == 80
    assert data["tools"] == [
        {"name": "read", "calls": 2, "ok": 1, "failed": 1, "denied": 0, "median_ms": 1.0, "p95_ms": 1.0, "bytes": 20}
    ]
    text = stats.aligned(stats.DAY_HEADINGS, stats.day_rows(found.days))
    assert len(text.splitlines()) == 3 and "$0.0000+" in text
    assert stats.aligned(stats.TOOL_HEADINGS, []).startswith("tool")


def test_what_a_copy_took_over_counts_once(tmp_path: Path) -> None:
    session = store(tmp_path).create()
    agent = busy_agent(session)
    run(agent, "one")
    alone = stats.collect(store(tmp_path).read_all())
    copy = store(tmp_path).resume(session.id)
    assert copy.forked_from == session.id
    both = stats.collect(store(tmp_path).read_all())
    assert both.sessions == 2
    assert (both.tools, both.days[0].usage, both.days[0].turns) == (alone.tools, alone.days[0].usage, 1)


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta",):
            self.open.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action", "data")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("days", [0, 1, 3, 60])
def test_the_page_is_whole_and_loads_nothing(days: int) -> None:
    sessions = [
        ("s", lines(
            StepTaken("m", Usage(n, n // 2, 10, 5), 0.01 * n, "STOP", 20.0), call("<script>alert(1)</script>"),
            TurnEnded("ok", 1, 1), when=NOON + n * DAY,
        ))
        for n in range(days)
    ]  # fmt: skip
    html = stats_page.as_html(stats.collect(sessions))
    page = Page()
    page.feed(html)
    page.close()
    assert page.open == [] and page.addresses == []
    assert page.tags.count("svg") == 4
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    assert "http" not in re.sub(r'http-equiv="[^"]*"', "", html)
    assert "nan" not in html.lower() and "inf" not in html.lower()
    assert html.count("<rect") == days * (4 + 1 + 2 + 3)
