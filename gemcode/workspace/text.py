"""Bytes to text and back without losing one: encodings, line ends, binary detection, bounded line spans.

Pure. `TextFile.text` is the exact text, own line ends kept, so that encode(decode(x).text) is x for every x. The model
is shown `TextFile.view`, where every line end is "\\n"; edit.py gives each untouched line its own end back.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from gemcode.agent.errors import ToolError
from gemcode.frozen import frozen

Encoding = Literal["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "latin-1"]
Newline = Literal["lf", "crlf", "cr", "mixed", "none"]

BYTE_ORDER_MARKS: dict[Encoding, bytes] = {
    "utf-8-sig": b"\xef\xbb\xbf",
    "utf-16-le": b"\xff\xfe",
    "utf-16-be": b"\xfe\xff",
}
ENDS: dict[str, Newline] = {"\n": "lf", "\r\n": "crlf", "\r": "cr"}

# Only signatures that no text starts with: they decide, the others below merely name what NUL bytes gave away.
SIGNATURES = (
    (b"\x89PNG\r\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF87a", "GIF image"),
    (b"GIF89a", "GIF image"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive"),
    (b"\x1f\x8b", "gzip archive"),
    (b"\xfd7zXZ\x00", "XZ archive"),
    (b"\x28\xb5\x2f\xfd", "Zstandard archive"),
    (b"7z\xbc\xaf", "7-Zip archive"),
    (b"\x7fELF", "ELF program"),
    (b"\xcf\xfa\xed\xfe", "Mach-O program"),
    (b"\xca\xfe\xba\xbe", "Java class or Mach-O program"),
    (b"\x00asm", "WebAssembly module"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"\xff\xfe\x00\x00", "UTF-32 text"),
    (b"\x00\x00\xfe\xff", "UTF-32 text"),
)
WEAK_SIGNATURES = ((b"MZ", "Windows program"), (b"BM", "BMP image"), (b"BZh", "bzip2 archive"), (b"RIFF", "RIFF media"))

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_ODD_CONTROLS = bytes(range(0x20)).translate(None, b"\t\n\r\f\b\x1b") + b"\x7f"


@frozen
class TextFile:
    """A file that is text: the exact text without its byte order mark, and what is needed to write it back."""

    text: str
    encoding: Encoding
    bom: bool
    newline: Newline
    final_newline: bool

    @property
    def view(self) -> str:
        """What the model sees: the same lines, every one ended by a line feed."""
        return normalise(self.text)


@frozen
class Binary:
    """A file that is not text, named for the person."""

    kind: str
    size: int


@frozen
class Cut:
    """What a span left out, and how to go on."""

    next_line: int | None
    shortened: tuple[int, ...]
    message: str


@frozen
class Span:
    """Lines first..last (from 1, inclusive) of total; an empty span has last == first - 1."""

    text: str
    first: int
    last: int
    total: int
    cut: Cut | None


def decode(data: bytes) -> TextFile | Binary:
    """The text of a file, or what kind of binary it is. Never guesses beyond Latin-1, which maps every byte."""
    for signature, kind in SIGNATURES:
        if data.startswith(signature):
            return Binary(kind, len(data))
    for encoding, mark in BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            text = _decode_exactly(data[len(mark) :], "utf-8" if encoding == "utf-8-sig" else encoding)
            if text is not None and "\0" not in text:
                return _text_file(text, encoding, bom=True)
            if encoding != "utf-8-sig":
                return Binary("damaged UTF-16 text", len(data))
    if b"\0" in data:
        return Binary(_name_binary(data), len(data))
    text = _decode_exactly(data, "utf-8")
    if text is not None:
        return _text_file(text, "utf-8", bom=False)
    odd = len(data) - len(data.translate(None, _ODD_CONTROLS))
    if odd * 50 > len(data):  # one control byte in fifty: no Latin-1 text looks like that, compressed data does
        return Binary(_name_binary(data), len(data))
    return _text_file(data.decode("latin-1"), "latin-1", bom=False)


def encode(text: str, like: TextFile) -> bytes:
    """The bytes of `text` in the encoding of `like`; refused, never mangled, where a character has no place in it."""
    body = "utf-8" if like.encoding == "utf-8-sig" else like.encoding
    try:
        data = text.encode(body)
    except UnicodeEncodeError as error:
        raise ToolError(
            "encoding",
            f"The file is {like.encoding}, which can't hold the character {text[error.start]!a}; nothing was changed.",
            encoding=like.encoding,
            character=f"U+{ord(text[error.start]):04X}",
            line=text.count("\n", 0, error.start) + 1,
        ) from None
    return BYTE_ORDER_MARKS.get(like.encoding, b"") + data if like.bom else data


def normalise(text: str) -> str:
    """Every line end as a line feed."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def split_lines(text: str) -> list[str]:
    """The lines with their own ends. Only CR, LF and CRLF end a line: str.splitlines also splits at nine others."""
    return text.splitlines(keepends=True) if text.isascii() and not _has_odd_breaks(text) else _LINE.findall(text)


def line_end(line: str) -> str:
    """The end of one line of split_lines: "\\r\\n", "\\n", "\\r" or nothing."""
    return "\r\n" if line.endswith("\r\n") else line[-1:] if line.endswith(("\n", "\r")) else ""


def dominant_end(lines: Sequence[str]) -> str:
    """The most frequent line end, a line feed if there is none."""
    ends = Counter(line_end(line) for line in lines)
    del ends[""]
    return ends.most_common(1)[0][0] if ends else "\n"


def line_span(
    text: str, start: int = 1, end: int | None = None, max_bytes: int = 65_536, max_line: int = 10_000
) -> Span:
    """Lines start..end of a text, bounded in bytes and in characters per line, with a report of what is missing."""
    lines = split_lines(normalise(text))
    total = len(lines)
    if start < 1 or (end is not None and end < start) or start > max(total, 1):
        raise ToolError("invalid_range", f"The file has {total} lines; ask for lines within 1 to {total}.", total=total)
    wanted = lines[start - 1 : end]
    shown: list[str] = []
    shortened: list[int] = []
    room = max_bytes
    for number, line in enumerate(wanted, start):
        piece = line if len(line) <= max_line + 1 else line[:max_line] + "\n"
        size = len(piece.encode("utf-8", "surrogatepass"))
        if size > room and shown:
            break
        if size > room:  # one line larger than the whole budget still moves the reader on
            piece = piece.encode("utf-8", "surrogatepass")[: max(room, 1)].decode("utf-8", "ignore").rstrip("\n") + "\n"
        if len(piece) < len(line):
            shortened.append(number)
        shown.append(piece)
        room -= size
    last = start + len(shown) - 1
    return Span("".join(shown), start, last, total, _report(start, last, start + len(wanted) - 1, total, shortened))


def _report(first: int, last: int, wanted: int, total: int, shortened: list[int]) -> Cut | None:
    said = []
    if last < wanted:
        said.append(f"Lines {first} to {last} of {total} are shown; go on with start_line={last + 1}.")
    if shortened:
        numbers = ", ".join(map(str, shortened[:10])) + (" and others" if len(shortened) > 10 else "")
        said.append(
            f"Too long to show whole: line {numbers}. search_files finds text in them, edit_file can change it."
        )
    return Cut(last + 1 if last < wanted else None, tuple(shortened), " ".join(said)) if said else None


def _decode_exactly(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


def _text_file(text: str, encoding: Encoding, *, bom: bool) -> TextFile:
    return TextFile(text, encoding, bom, _newline(text), text.endswith(("\n", "\r")))


def _newline(text: str) -> Newline:
    if "\r" not in text:  # not counted, as nearly always: this is asked of every file
        return "lf" if "\n" in text else "none"
    crlf = text.count("\r\n")
    found = [
        name for name, n in (("\r\n", crlf), ("\n", text.count("\n") - crlf), ("\r", text.count("\r") - crlf)) if n
    ]
    return ENDS[found[0]] if len(found) == 1 else "mixed"


def _has_odd_breaks(text: str) -> bool:
    return any(mark in text for mark in "\v\f\x1c\x1d\x1e")


def _name_binary(data: bytes) -> str:
    return next((kind for signature, kind in WEAK_SIGNATURES if data.startswith(signature)), "binary data")
