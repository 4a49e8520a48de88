"""What a path may look like and what its names mean: the lexical gate, alias folding, and the four name classes.

Everything here is pure text. Whether a path exists and where it leads is for `root` to find out.
"""

import functools
import itertools
import os
import posixpath
import unicodedata
from collections.abc import Iterable
from enum import Enum
from urllib.parse import quote_from_bytes, unquote_to_bytes

from gemcode.agent.errors import ToolError
from gemcode.workspace import name_rules

MAX_PATH_BYTES = 4096
MAX_COMPONENT_BYTES = 255
MAX_COMPONENTS = 64
TEMPORARY_PREFIX = name_rules.TEMPORARY_PREFIX
HANDLE_PREFIX = "handle:"  # a colon is refused in ordinary paths, so the two can't be confused


class NameClass(Enum):
    """How careful to be with a name; by any component of the path."""

    NEVER = "A"  # no tool reads, lists or writes it
    SECRET = "B"  # noqa: S105  (a class, no password) may hold secrets: ask for each read and each write
    RUNS_LATER = "C"  # runs without being asked, or can't be read off the screen: every write asks
    ORDINARY = "D"


def check_lexical(path: object, *, directory: bool = False, handles: bool = True) -> str:
    """The path in its one spelling (`a//b` and `./a` are tidied), or ToolError. "." only for a directory.

    A handle from a listing stands for a name that this gate refuses as text; `handles=False` refuses it too.
    """
    if not isinstance(path, str):
        raise _invalid("The path must be a string.")
    if path.startswith(HANDLE_PREFIX):
        if not handles:
            raise _invalid("A name with unusual characters can be read but not written.")
        return _check_components(from_handle(path), directory=directory)
    _check_characters(path)
    if path.startswith("/"):
        raise ToolError("outside_project", "Paths are relative to the project; an absolute path is refused.")
    return _check_components(path, directory=directory)


def to_handle(path: str) -> str:
    """`path` as a tool may show and take it: itself if the gate lets it pass, else in the `handle:` form."""
    try:
        _check_characters(path)
    except ToolError:
        return HANDLE_PREFIX + quote_from_bytes(os.fsencode(path), safe="/ ()[]{}+,;=@!&'")
    return path


def from_handle(handle: str) -> str:
    """The name that a handle stands for; ToolError unless to_handle would give this very text."""
    if len(handle) > 3 * MAX_PATH_BYTES + len(HANDLE_PREFIX):
        raise _invalid(f"The path is longer than {MAX_PATH_BYTES} bytes.")
    raw = unquote_to_bytes(handle.removeprefix(HANDLE_PREFIX).encode("utf-8", "replace"))
    decoded = os.fsdecode(raw)
    if len(raw) > MAX_PATH_BYTES or b"\0" in raw or decoded.startswith("/") or to_handle(decoded) != handle:
        raise _invalid("This handle did not come from a listing.")
    return decoded


def fold(component: str) -> str:
    """What the most forgiving file system would make of this name: the form that policy compares."""
    if component.isascii():
        return component.partition(":")[0].lower().rstrip(" .")
    folded = component
    while True:  # normalising can make new capitals, colons and dots; each round shortens or settles the name
        before = folded
        folded = folded.partition(":")[0]
        folded = "".join(c for c in folded if unicodedata.category(c) != "Cf" and c not in name_rules.IGNORABLE)
        folded = unicodedata.normalize("NFKC", folded.casefold()).rstrip(" .")
        if folded == before:
            return folded


def classify(path: str) -> NameClass:
    return _judge(path)[0]


def reason(path: str) -> str:
    """Why the path is not quite ordinary, in a few words; empty for an ordinary one."""
    return _judge(path)[1]


def may_be_never(components: Iterable[str]) -> bool:
    """Whether any of these names needs to be asked about with `is_never`. One look at all names of a directory."""
    joined = "\n".join(components)
    return not joined.isascii() or name_rules.MAYBE_NEVER.search(joined) is not None


def is_never(component: str) -> bool:
    """Whether one name alone is of class A. A listing asks it of every entry, so plain names are answered at once."""
    if component.isascii() and not name_rules.MAYBE_NEVER.search(component):
        return False
    return _judge_component(component)[0] is NameClass.NEVER


def _judge(path: str) -> tuple[NameClass, str]:
    """The strictest verdict over all components, and over the few pairs that only mean something together."""
    components = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
    verdicts = [_judge_component(part) for part in components]
    folded = [fold(part) for part in components]
    verdicts += [
        (NameClass.RUNS_LATER, name_rules.PAIRS[pair])
        for pair in itertools.pairwise(folded)
        if pair in name_rules.PAIRS
    ]
    if components and name_rules.SECRET_LEAF.fullmatch(_original(folded[-1])):
        verdicts.append((NameClass.SECRET, name_rules.SECRET_REASON))
    ordinary = (NameClass.ORDINARY, "")
    return min(verdicts, key=lambda verdict: (verdict[0].value, not verdict[1]), default=ordinary)


@functools.lru_cache(maxsize=65536)
def _judge_component(component: str) -> tuple[NameClass, str]:
    name = fold(component)
    if (why := name_rules.never(name)) is not None:
        return NameClass.NEVER, why
    original = _original(name)
    if name_rules.SECRET.fullmatch(original) and not name_rules.NOT_SECRET.fullmatch(original):
        return NameClass.SECRET, name_rules.SECRET_REASON
    if (why := name_rules.runs_later(name)) is not None:
        return NameClass.RUNS_LATER, why
    if not component.isprintable() or component.isspace():
        return NameClass.RUNS_LATER, "has characters that can't be seen"
    if name.partition(".")[0].rstrip() in name_rules.WINDOWS_DEVICES or component[-1] in " .":
        return NameClass.ORDINARY, "not a usable name on Windows"
    return NameClass.ORDINARY, ""


def _original(name: str) -> str:
    """The name of the file that this one, by its name, is a copy of; itself for any other."""
    while (copy := name_rules.COPY.fullmatch(name)) is not None:
        name = copy[1] or copy[2]
    return name


def _invalid(message: str, **details: object) -> ToolError:
    return ToolError("invalid_path", message, **details)


def _check_characters(path: str) -> None:
    if len(path) > MAX_PATH_BYTES:
        raise _invalid(f"The path is longer than {MAX_PATH_BYTES} bytes.")
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        raise _invalid("The path holds a lone surrogate, which is not a character.") from None
    if len(encoded) > MAX_PATH_BYTES:
        raise _invalid(f"The path is longer than {MAX_PATH_BYTES} bytes.")
    if not path.isprintable() and any(unicodedata.category(c) == "Cc" for c in path):
        raise _invalid("The path holds a control character.")
    if "\\" in path:
        raise _invalid("The path holds a backslash; separate directories with '/'.")
    if ":" in path:
        raise _invalid("The path holds a colon (a drive, a URL or a stream); give a path relative to the project.")


def _check_components(path: str, *, directory: bool) -> str:
    if not path:
        raise _invalid("The path is empty.", **({"use": "."} if directory else {}))
    parts = path.split("/")
    if ".." in parts:
        raise _dotdot(path)
    if directory:
        path = path.rstrip("/")
        parts = path.split("/")
    elif parts[-1] == "":
        raise _invalid("The path ends with '/', but it must name a file.", use=path.rstrip("/"))
    if parts[-1] == "." and not (directory and path == "."):
        raise _invalid("The path ends with '.', which names a directory.")
    parts = [part for part in parts if part not in ("", ".")]
    if len(parts) > MAX_COMPONENTS:
        raise _invalid(f"The path has more than {MAX_COMPONENTS} parts.")
    if any(len(os.fsencode(part)) > MAX_COMPONENT_BYTES for part in parts):
        raise _invalid(f"A name in the path is longer than {MAX_COMPONENT_BYTES} bytes.")
    return "/".join(parts) or "."


def _dotdot(path: str) -> ToolError:
    tidy = posixpath.normpath(path)
    if tidy == ".." or tidy.startswith("../"):
        return ToolError("outside_project", "The path leads outside the project.")
    return _invalid("A path with '..' is refused, because a link could change what it means.", use=tidy)
