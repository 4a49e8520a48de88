import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemcode.agent.errors import ModelError
from gemcode.gemini.sse import EventReader


def read(data: bytes, cuts: list[int] | None = None) -> list[Any]:
    reader = EventReader()
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts or ()), len(data)]
    found: list[Any] = []
    for start, end in itertools.pairwise(edges):
        found += reader.feed(data[start:end])
    return found + reader.close()


values = st.dictionaries(st.text(max_size=4), st.text(max_size=6) | st.integers(), min_size=1, max_size=3)


@given(
    st.lists(values, max_size=5),
    st.sampled_from(["\r\n", "\n", "\r"]),
    st.booleans(),
    st.lists(st.integers(0), max_size=8),
)
def test_events_are_the_same_however_the_bytes_are_cut(
    events: list[dict[str, Any]], end: str, ascii_only: bool, cuts: list[int]
) -> None:
    stream = "".join(f"data: {json.dumps(each, ensure_ascii=ascii_only)}{end}{end}" for each in events)
    assert read(stream.encode("utf-8", "surrogatepass"), cuts) == events


def test_an_event_is_given_as_soon_as_it_is_complete() -> None:
    reader = EventReader()
    assert reader.feed(b'data: {"a":1}\r\n') == []
    assert reader.feed(b"\r\n") == [{"a": 1}]


def test_data_over_several_lines_is_one_event() -> None:
    assert read(b'data: {"a":\ndata: 1}\n\n') == [{"a": 1}]


def test_the_last_event_needs_no_blank_line() -> None:
    assert read(b'data: {"a":1}') == [{"a": 1}]


def test_comments_other_fields_and_the_done_mark_are_passed_over() -> None:
    assert read(b': x\n\nevent: e\nid: 1\nretry: 5\ndata:{"a":1}\n\ndata: [DONE]\n\n') == [{"a": 1}]


def test_a_bare_tail_is_an_event_of_its_own() -> None:
    assert read(b'data: {"a":1}\r\n\r\n{\n "error": {\n  "code": 499\n }\n}\n') == [{"a": 1}, {"error": {"code": 499}}]


def test_a_json_array_is_its_elements() -> None:
    assert read(b'[{"a":1},\r\n{"b":2}]') == [{"a": 1}, {"b": 2}]


def test_an_empty_body_has_no_events() -> None:
    assert read(b"") == []


@pytest.mark.parametrize(
    "body",
    [
        b"data: {\n\n",
        b"{",
        b'data: {"a": Infinity}\n\n',
        b'data: {"a": -1e999}\n\n',
        b"[" * 100_000,
        b'data: {"a":1}\n\ntrash',
        b"data: \xff\n\n",
    ],
)
def test_damage_is_retryable(body: bytes) -> None:
    with pytest.raises(ModelError) as caught:
        read(body)
    assert caught.value.retryable


def test_something_else_than_json_is_not() -> None:
    with pytest.raises(ModelError, match="something else instead of JSON") as caught:
        read(b"hello there")
    assert not caught.value.retryable


def test_limits_hold_for_one_line_for_many_lines_and_for_the_whole() -> None:
    with pytest.raises(ModelError, match="event"):
        EventReader(event_limit=10).feed(b"data: 12345678")
    with pytest.raises(ModelError, match="event"):
        EventReader(event_limit=10).feed(b"data: 1\ndata: 2\n")
    with pytest.raises(ModelError, match="answer"):
        EventReader(response_limit=10).feed(b"data: 1\n\ndata: 2\n\n")
