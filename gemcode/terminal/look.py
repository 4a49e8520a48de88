"""What the terminal at hand can and should show: colours, Unicode marks, a live region. Pure, but for the size."""

import os
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from gemcode.frozen import frozen


class Colour(Enum):
    NONE = "none"  # no escape sequence at all
    MONO = "mono"  # bold and dim only
    FULL = "full"


class Size(NamedTuple):
    columns: int
    rows: int


@frozen
class Look:
    """`live`: lines may be rewritten in place. Without it every line is printed once and stays (linear mode)."""

    colour: Colour = Colour.NONE
    unicode: bool = True
    live: bool = False


SMALLEST = Size(20, 6)  # below this a live region can't work


def choose_look(
    environ: Mapping[str, str], *, terminal: bool, encoding: str | None, size: Size, no_color: bool = False
) -> Look:
    """The look for one output stream; `terminal`: it is one, and for a live region so is the input."""
    dumb = environ.get("TERM") in ("dumb", "unknown")
    plain = dumb or _is_on(environ.get("GEMCODE_PLAIN"))
    live = terminal and not plain and not _is_on(environ.get("CI")) and size >= SMALLEST and size.rows >= SMALLEST.rows
    return Look(_colour(environ, terminal=terminal, dumb=dumb, no_color=no_color), is_unicode(encoding), live)


def is_unicode(encoding: str | None) -> bool:
    return (encoding or "").lower().replace("-", "").startswith("utf")


def terminal_size(descriptor: int = 1) -> Size:
    """The real size; COLUMNS is not asked, since it outlives a resize."""
    try:
        columns, rows = os.get_terminal_size(descriptor)
    except OSError:
        return Size(80, 24)
    return Size(columns or 80, rows or 24)  # a fresh pty says 0 x 0


def _colour(environ: Mapping[str, str], *, terminal: bool, dumb: bool, no_color: bool) -> Colour:
    force = environ.get("FORCE_COLOR")
    if dumb or force in ("0", "false"):
        return Colour.NONE
    forced = bool(force) or _is_on(environ.get("CLICOLOR_FORCE"))
    if not terminal and not forced:
        return Colour.NONE
    if no_color or environ.get("NO_COLOR"):
        return Colour.MONO if terminal else Colour.NONE
    if environ.get("CLICOLOR") == "0" and not forced:
        return Colour.MONO
    return Colour.FULL


def _is_on(value: str | None) -> bool:
    return bool(value) and value not in ("0", "false")
