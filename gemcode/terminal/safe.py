"""The single exit to the screen: what others wrote is escaped here, and only here the standard streams are written.

Escape before wrapping, markup and widths. Imports neither rich nor prompt_toolkit.
"""

import contextlib
import errno
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from typing import TextIO

from gemcode.agent.errors import GemcodeError

# Printable for Python, and still invisible or deceiving: fillers, blanks, variation selectors.
_INVISIBLE = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
_COMBINING = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
)
_STACK = 8  # marks on one letter; no script needs more, ten thousand would freeze a terminal
_EMOJI = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff\u3030\u303d\u3297\u3299"
    "\U0001f000-\U0001faff"
)

_suspect = re.compile(f"[{_INVISIBLE}]|[{_COMBINING}]{{{_STACK + 1}}}")
_hidden = re.compile(f"[{_INVISIBLE}]")
_stacked = re.compile(f"[{_COMBINING}]{{{_STACK + 1},}}")
_emoji_sequence = re.compile(f"([{_EMOJI}]\ufe0f?(?:\u200d[{_EMOJI}]\ufe0f?)+|[{_EMOJI}]\ufe0f|[0-9#*]\ufe0f\u20e3)")
_PROSE_SPACES = str.maketrans({"\u00a0": " ", "\u202f": " "})  # French typography; nothing hides in it


class StdoutClosed(Exception):
    """The reader of stdout went away (`| head -1`): stop quietly, exit code 141."""


class OutputFailed(GemcodeError):
    """Stdout can't take what there is to say (a full disk): only stderr is left to say it on."""


def escape(text: str, *, single_line: bool = False) -> str:
    """Text of others, safe to show: printable, newline and tab stay, all else becomes visible (`\\x1b`, `\\u{202e}`).

    Prose keeps what joins emoji. `single_line` is for names: newline, tab and joiners are made visible too.
    """
    if single_line:
        return _escape_line(text, keep_tab=False)
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
    if _is_clean(text):
        return text
    return "\n".join(_escape_prose(line) for line in text.translate(_PROSE_SPACES).split("\n"))


def escape_exactly(line: str) -> str:
    """One line of a file, for a diff: as `escape`, but tabs stay and nothing invisible does."""
    return _escape_line(line, keep_tab=True)


def mixes_scripts(name: str) -> bool:
    """Whether a word of the name mixes Latin with Greek or Cyrillic letters, which look alike."""
    for word in re.findall(r"[^\W\d_]+", name):
        if not word.isascii():
            scripts = {unicodedata.name(letter, "").split(" ")[0] for letter in word}
            if len(scripts & {"LATIN", "CYRILLIC", "GREEK"}) > 1:
                return True
    return False


def write_stdout(text: str) -> None:
    """Write and flush. Raises StdoutClosed when nobody reads any more."""
    with _noticing_a_closed_stdout():
        _write(sys.stdout, text)


def pass_through(data: bytes) -> None:
    """What the person's own program printed, as it is."""
    with _noticing_a_closed_stdout():
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


@contextlib.contextmanager
def _noticing_a_closed_stdout() -> Iterator[None]:
    try:
        yield
    except (ValueError, AttributeError):  # closed, or never open
        raise StdoutClosed from None
    except OSError as error:
        _silence(sys.stdout)
        if error.errno in (errno.EPIPE, errno.EIO):  # EIO: the terminal hung up
            raise StdoutClosed from None
        raise OutputFailed(f"Writing the answer failed: {error.strerror}.") from None


def write_stderr(text: str) -> None:
    """Write and flush. A closed stderr is no reason to stop."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        _write(sys.stderr, text)


def _write(stream: TextIO, text: str) -> None:
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    stream.write(text)
    stream.flush()


def _silence(stream: TextIO) -> None:
    """Point a dead stream at nowhere, so that the interpreter's last flush does not complain."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _is_clean(text: str) -> bool:
    lines: Iterable[str] = text.replace("\t", "").split("\n")
    return all(map(str.isprintable, lines)) and (text.isascii() or _suspect.search(text) is None)


def _escape_prose(line: str) -> str:
    if _is_clean(line):
        return line
    pieces = _emoji_sequence.split(line)
    return "".join(piece if index % 2 else _escape_line(piece, keep_tab=True) for index, piece in enumerate(pieces))


def _escape_line(line: str, *, keep_tab: bool) -> str:
    if line.isprintable() and (line.isascii() or _suspect.search(line) is None):
        return line
    if not line.isascii():
        line = _stacked.sub(lambda run: run[0][:_STACK] + "".join(map(_code, run[0][_STACK:])), line)
        line = _hidden.sub(lambda found: _code(found[0]), line)
    return "".join(
        letter if letter.isprintable() or (keep_tab and letter == "\t") else _code(letter) for letter in line
    )


def _code(letter: str) -> str:
    number = ord(letter)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{{{number:x}}}"
