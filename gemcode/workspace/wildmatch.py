"""Git's wildmatch patterns, translated byte for byte to RE2 (linear time, whatever the pattern), and the tools' globs.

It works on text only. Where git's own code has a quirk, the translation has the same one.
"""

import string
import sys
from collections.abc import Callable, Iterable, Sequence

import re2

from gemcode.agent.errors import ToolError

_ENCODING, _ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
_SPECIAL = b"*?[\\"
_MAX_GLOB = 1024
_MAX_ALTERNATIVES = 64
_MEMORY = 64 << 20  # an upper bound: RE2 takes what it needs, and resets its cache beyond this


def _ascii(characters: str) -> frozenset[int]:
    return frozenset(characters.encode())


# Git's own character classes: ASCII only, and space without vertical tab and form feed.
_PRINTABLE = frozenset(range(0x20, 0x7F))
_CLASSES = {
    b"alnum": _ascii(string.ascii_letters + string.digits),
    b"alpha": _ascii(string.ascii_letters),
    b"blank": _ascii(" \t"),
    b"cntrl": frozenset({*range(0x20), 0x7F}),
    b"digit": _ascii(string.digits),
    b"graph": _PRINTABLE - {0x20},
    b"lower": _ascii(string.ascii_lowercase),
    b"print": _PRINTABLE,
    b"punct": _ascii(string.punctuation),
    b"space": _ascii(" \t\n\r"),
    b"upper": _ascii(string.ascii_uppercase),
    b"xdigit": _ascii(string.hexdigits),
}


def encode_name(path: str) -> bytes:
    """os.fsencode in a quarter of its time: a listing asks it of every name."""
    return path.encode(_ENCODING, _ERRORS)


def literal_length(pattern: bytes) -> int:
    """How many bytes come before the first special one."""
    return next((index for index, byte in enumerate(pattern) if byte in _SPECIAL), len(pattern))


def translate(pattern: bytes, start: int | None = 0) -> bytes | None:
    """The RE2 text for a whole pattern in which `*` and `?` stop at slashes; None for one that can't match anything.

    `start` is where git starts its matcher after comparing the plain text before it: `**` there counts as leading.
    None when there is no such place: for a pattern without any slash, `**` means no more than `*`.
    """
    pieces = []
    index = 0
    while index < len(pattern):
        byte = pattern[index]
        if byte == ord("*"):
            piece, index = _translate_stars(pattern, index, start)
        elif byte == ord("["):
            found = _read_class(pattern, index + 1)
            if found is None:
                return None
            members, index = found
            piece = _class_text(members - {ord("/")})
        elif byte == ord("?"):
            piece, index = b"[^/]", index + 1
        else:
            if byte == ord("\\"):
                index += 1
                if index == len(pattern):
                    return None
            piece, index = b"\\x%02x" % pattern[index], index + 1
        pieces.append(piece)
    return b"".join(pieces)


def _translate_stars(pattern: bytes, index: int, start: int | None) -> tuple[bytes, int]:
    end = index
    while pattern[end : end + 1] == b"*":
        end += 1
    rest = pattern[end : end + 2]
    leading = index == start or pattern[index - 1 : index] == b"/"
    if end - index == 1 or not leading or (rest and not rest.startswith((b"/", b"\\/"))):
        return b"[^/]*", end
    if rest.startswith(b"/"):
        return b"(?:.*/)?", end + 1
    return b".*", end


def _read_class(pattern: bytes, index: int) -> tuple[frozenset[int], int] | None:
    """The bytes that the bracket expression from `index` on accepts, and where it ends; None when it never does."""
    negated = pattern[index : index + 1] in (b"!", b"^")
    index += negated
    members: set[int] = set()
    previous: int | None = None
    first = True
    while first or pattern[index : index + 1] != b"]":
        first = False
        item = _read_class_item(pattern, index, previous)
        if item is None:
            return None
        added, previous, index = item
        members.update(added)
    accepted = frozenset(range(1, 256)) - members if negated else frozenset(members)
    return accepted, index + 1


def _read_class_item(pattern: bytes, index: int, previous: int | None) -> tuple[Iterable[int], int | None, int] | None:
    """What one item of a bracket expression adds, the start for a range that may follow, and the next index."""
    byte = pattern[index : index + 1]
    following = pattern[index + 1 : index + 2]
    if byte == b"-" and previous is not None and following not in (b"", b"]"):
        index += 2 if following == b"\\" else 1
        if index >= len(pattern):
            return None
        return range(previous, pattern[index] + 1), None, index + 1
    if byte == b"[" and following == b":":
        close = pattern.find(b"]", index + 2)
        if close < 0:
            return None
        if close > index + 2 and pattern[close - 1] == ord(":"):
            named = _CLASSES.get(pattern[index + 2 : close - 1])
            return None if named is None else (named, None, close + 1)
    if byte == b"\\":
        index += 1
    if index >= len(pattern):
        return None
    return (pattern[index],), pattern[index], index + 1


def _class_text(members: frozenset[int]) -> bytes:
    if not members:
        return b"[^\\x00-\\xff]"
    return b"[" + b"".join(b"\\x%02x" % byte for byte in sorted(members)) + b"]"


def compile_set(texts: Iterable[bytes]) -> Callable[[bytes], Sequence[int] | None] | None:
    """A function from a text to the numbers of the patterns that match all of it, or None for none of them; no
    function if they are too complex."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.dot_nl = True
    options.never_capture = True
    options.log_errors = False
    options.max_mem = _MEMORY
    patterns = re2.Set.FullMatchSet(options)
    try:
        for text in texts:
            patterns.Add(text)
        patterns.Compile()  # RE2 tries the set here, so that a match can't fail for want of memory later
    except re2.error:
        return None
    match: Callable[[bytes], Sequence[int] | None] = patterns.Match
    return match


def compile_glob(pattern: str) -> Callable[[str], bool]:
    """A tool's glob: without a slash it is compared with the file's name, with one to the path; `{a,b}` is a choice."""
    if not 0 < len(pattern) <= _MAX_GLOB or any("\ud800" <= character <= "\udfff" for character in pattern):
        raise ToolError("invalid_path", f"The pattern must have 1 to {_MAX_GLOB} characters and no lone surrogate.")
    texts = []
    for choice in _expand_braces(pattern):
        encoded = choice.encode()
        if encoded.endswith(b"/"):
            encoded += b"**"
        text = translate(
            encoded.removeprefix(b".").removeprefix(b"/") if encoded.startswith((b"./", b"/")) else encoded
        )
        if text is None:
            raise ToolError("invalid_path", f"The pattern {pattern!r} can't match anything: a bracket is not closed.")
        texts.append(text if b"/" in encoded else b"(?:.*/)?" + text)
    match = compile_set(texts)
    if match is None:
        raise ToolError("invalid_path", "The pattern is too complex.")
    return lambda path: match(path.encode(_ENCODING, _ERRORS)) is not None


def _expand_braces(pattern: str) -> list[str]:
    """`*.{ts,tsx}` as `*.ts` and `*.tsx`. Braces that hold no comma stay as they are."""
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        current = waiting.pop()
        choice = _innermost_choice(current)
        if choice is None:
            done.append(current)
        else:
            opening, closing = choice
            alternatives = current[opening + 1 : closing].split(",")
            waiting += [current[:opening] + each + current[closing + 1 :] for each in alternatives]
        if len(done) + len(waiting) > _MAX_ALTERNATIVES:
            raise ToolError("invalid_path", f"The pattern stands for more than {_MAX_ALTERNATIVES} alternatives.")
    return done


def _innermost_choice(pattern: str) -> tuple[int, int] | None:
    opening = -1
    for index, character in enumerate(pattern):
        if character == "{":
            opening = index
        elif character == "}" and opening >= 0:
            if "," in pattern[opening:index]:
                return opening, index
            opening = -1
    return None
