from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemcode.gemini.arguments import PartialCall


def assemble(*pieces: dict[str, Any]) -> Any:
    call = PartialCall({"functionCall": {"id": "1", "name": "now", "willContinue": True}, "thoughtSignature": "QQ=="})
    call.absorb({"partialArgs": list(pieces)})
    part = call.whole_part()
    assert (part["functionCall"]["id"], part["thoughtSignature"]) == ("1", "QQ==")
    return part["functionCall"]["args"]


def test_every_kind_of_value_is_placed() -> None:
    args = assemble(
        {"jsonPath": "$.s", "stringValue": "a"},
        {"jsonPath": "$.s", "stringValue": "b"},
        {"jsonPath": "$.n", "numberValue": 1.5},
        {"jsonPath": "$.b", "boolValue": False},
        {"jsonPath": "$.z", "nullValue": "NULL_VALUE"},
        {"jsonPath": "$['with space'].x", "stringValue": "c"},
        {"jsonPath": '$["q"]', "stringValue": "d"},
    )
    assert args == {"s": "ab", "n": 1.5, "b": False, "z": None, "with space": {"x": "c"}, "q": "d"}


def test_nested_lists_grow_as_needed() -> None:
    args = assemble(
        {"jsonPath": "$.list[1].name", "stringValue": "b"},
        {"jsonPath": "$.list[0]", "stringValue": "a"},
        {"jsonPath": "$.grid[0][1]", "numberValue": 1},
    )
    assert args == {"list": ["a", {"name": "b"}], "grid": [[None, 1]]}


@pytest.mark.parametrize("path", ["", "$", "a", "$.", "$[0]", "$.a[99999]", "$.a[x]", "$.a..b", "$.a[-1]"])
def test_a_path_that_is_not_understood_changes_nothing(path: str) -> None:
    assert assemble({"jsonPath": path, "stringValue": "x"}) == {}


def test_pieces_of_the_wrong_shape_change_nothing() -> None:
    assert assemble({"jsonPath": "$.a"}, {"stringValue": "x"}, {"jsonPath": 7, "stringValue": "x"}) == {}


def test_whole_arguments_beside_pieces_are_kept() -> None:
    call = PartialCall({"functionCall": {"name": "now", "args": {"a": 1}, "willContinue": True}})
    assert not call.absorb({"willContinue": True, "partialArgs": "none"})
    assert call.absorb({"args": {"b": 2}})
    assert call.whole_part() == {"functionCall": {"name": "now", "args": {"a": 1, "b": 2}}}


@given(st.lists(st.tuples(st.text("$.[]'\"0a1", max_size=12), st.text(max_size=3)), max_size=6))
def test_no_path_breaks_it(pieces: list[tuple[str, str]]) -> None:
    assert isinstance(assemble(*({"jsonPath": path, "stringValue": text} for path, text in pieces)), dict)
