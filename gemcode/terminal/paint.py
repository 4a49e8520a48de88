"""Lines of styled spans: how wide they are, how they are cut, and the bytes that show them. Text comes in escaped."""

import re
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import TypeAlias

from gemcode.terminal.look import Colour, Look


class Style(Enum):
    """The terminal's own sixteen colours only; the second value is what remains without colour."""

    PLAIN = ("", "")
    BOLD = ("1", "1")
    DIM = ("2", "2")
    GOOD = ("32", "")
    BAD = ("31", "")
    WARN = ("33", "1")
    ASK = ("36;1", "1")


Span: TypeAlias = tuple[Style, str]
Line: TypeAlias = tuple[Span, ...]

_wide = re.compile("[^\x20-\x7e]")


def line(*pieces: str | Span) -> Line:
    """A line from spans and plain strings."""
    return tuple((Style.PLAIN, piece) if isinstance(piece, str) else piece for piece in pieces)


def plain(of: Line) -> str:
    return "".join(text for _, text in of)


def paint(of: Line, look: Look) -> str:
    """The line as written to a stream of this look, without newline."""
    if look.colour is Colour.NONE:
        return plain(of)
    which = 0 if look.colour is Colour.FULL else 1
    return "".join(
        f"\x1b[{style.value[which]}m{text}\x1b[0m" if style.value[which] and text else text for style, text in of
    )


def paint_all(lines: Iterable[Line], look: Look) -> str:
    return "".join(f"{paint(one, look)}\n" for one in lines)


def width(text: str) -> int:
    """Columns of one line on the screen."""
    if not _wide.search(text):
        return len(text)
    from rich.cells import cell_len  # loaded on the first character that is not ASCII

    return cell_len(text)


def cut(text: str, columns: int, mark: str = "") -> str:
    """The text within so many columns; `mark` stands at the end of one that was cut."""
    if width(text) <= columns:
        return text
    room = max(columns - width(mark), 0)
    if not _wide.search(text):
        return text[:room] + mark[:columns]
    from rich.cells import set_cell_size

    return set_cell_size(text, room).rstrip(" ") + mark[:columns]


def pad(text: str, columns: int) -> str:
    return text + " " * max(columns - width(text), 0)


def fit(of: Line, columns: int, mark: str = "") -> Line:
    """The line within so many columns, cut from the right."""
    out: list[Span] = []
    room = columns
    total = width(plain(of))
    for style, text in of:
        if total > columns and width(text) > room - len(mark):
            out.append((style, cut(text + mark, room, mark)))
            break
        out.append((style, text))
        room -= width(text)
    return tuple(out)


def wrap(of: Line, columns: int) -> list[Line]:
    """The line in rows that break at blanks, so that no word, path or id is torn by the edge; rows below are indented.

    A word longer than a row is left to the terminal, and so is a line with tabs or newlines.
    """
    text = plain(of)
    if width(text) <= columns or "\n" in text or "\t" in text:
        return [of]
    rows: list[list[Span]] = [[]]
    used, blanks = 0, list[Span]()
    for word in _words(of):
        size = width(plain(word))
        if not plain(word).strip(" "):
            blanks = list(word)
        elif rows[-1] and used + width(plain(tuple(blanks))) + size > columns:
            rows.append([(Style.PLAIN, _INDENT), *word])
            used, blanks = len(_INDENT) + size, []
        else:
            rows[-1] += [*blanks, *word]
            used, blanks = used + width(plain(tuple(blanks))) + size, []
    return [tuple(row) for row in rows]


_INDENT = "  "


def _words(of: Line) -> Iterator[Line]:
    """Blanks and words in turn; a word may change its style."""
    open_word: list[Span] = []
    for style, text in of:
        for piece in re.findall(" +|[^ ]+", text):
            if open_word and (piece[0] == " ") != (open_word[0][1][0] == " "):
                yield tuple(open_word)
                open_word = []
            open_word.append((style, piece))
    if open_word:
        yield tuple(open_word)
