"""Which environment gets which look."""

import pytest

from gemcode.terminal.look import Colour, Size, choose_look

BIG = Size(80, 24)


@pytest.mark.parametrize(
    ("environ", "terminal", "colour", "live"),
    [
        ({}, True, Colour.FULL, True),
        ({}, False, Colour.NONE, False),
        ({"NO_COLOR": "1"}, True, Colour.MONO, True),
        ({"NO_COLOR": ""}, True, Colour.FULL, True),
        ({"FORCE_COLOR": "0"}, True, Colour.NONE, True),
        ({"FORCE_COLOR": "0"}, False, Colour.NONE, False),
        ({"FORCE_COLOR": "1"}, False, Colour.FULL, False),
        ({"CLICOLOR": "0"}, True, Colour.MONO, True),
        ({"CLICOLOR_FORCE": "1"}, False, Colour.FULL, False),
        ({"CLICOLOR_FORCE": "0"}, False, Colour.NONE, False),
        ({"CLICOLOR": "0", "CLICOLOR_FORCE": "1"}, True, Colour.FULL, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, Colour.NONE, False),
        ({"TERM": "dumb"}, True, Colour.NONE, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True, Colour.NONE, False),
        ({"GEMCODE_PLAIN": "1"}, True, Colour.FULL, False),
        ({"GEMCODE_PLAIN": "0"}, True, Colour.FULL, True),
        ({"CI": "true"}, True, Colour.FULL, False),
    ],
)
def test_38_colour_and_liveness(environ: dict[str, str], terminal: bool, colour: Colour, live: bool) -> None:
    look = choose_look(environ, terminal=terminal, encoding="utf-8", size=BIG)
    assert (look.colour, look.live) == (colour, live)


def test_the_flag_is_as_good_as_the_variable() -> None:
    assert choose_look({}, terminal=True, encoding="utf-8", size=BIG, no_color=True).colour is Colour.MONO


@pytest.mark.parametrize(("size", "live"), [(Size(20, 6), True), (Size(19, 24), False), (Size(80, 5), False)])
def test_a_tiny_terminal_is_linear(size: Size, live: bool) -> None:
    assert choose_look({}, terminal=True, encoding="utf-8", size=size).live is live


@pytest.mark.parametrize(
    ("encoding", "unicode"), [("utf-8", True), ("UTF-8", True), ("ANSI_X3.4-1968", False), (None, False)]
)
def test_marks_follow_the_encoding(encoding: str | None, unicode: bool) -> None:
    assert choose_look({}, terminal=True, encoding=encoding, size=BIG).unicode is unicode
