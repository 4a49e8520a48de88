"""Which entries of a listing are ignored: .gitignore as git reads it, .git/info/exclude below it, .gemcodeignore above.

Ignoring only shortens listings; it never permits or forbids anything.
"""

import os
from dataclasses import replace

from gemcode.frozen import frozen
from gemcode.workspace.tracked import Tracked
from gemcode.workspace.wildmatch import compile_set, encode_name, literal_length, translate

MAX_BYTES = 64 << 10
MAX_PATTERNS = 2000


class IgnoreFile:
    """One ignore file, compiled. Later patterns win; `base` is the length of its directory's path with a slash."""

    __slots__ = ("_base", "_directories_only", "_match", "_negated", "note")

    def __init__(self, data: bytes, directory: str = "") -> None:
        """`data` may be one byte over MAX_BYTES to show that there was more; `directory` is "" or ends with a slash."""
        self._base = len(os.fsencode(directory))
        patterns, self.note = _parse(data)
        match = compile_set(pattern.text for pattern in patterns)
        if match is None:
            match, patterns, self.note = _match_nothing, [], "is too complex and was not used"
        self._match = match
        self._negated = [pattern.negated for pattern in patterns]
        self._directories_only = [pattern.directories_only for pattern in patterns]

    def __bool__(self) -> bool:
        """Whether it has any say."""
        return bool(self._negated)

    def verdict(self, path: bytes, is_directory: bool) -> bool | None:
        """True for ignored, False for kept by a `!` pattern, None where no pattern speaks. `path` is from the root."""
        found = self._match(path[self._base :])
        if found is None:
            return None
        best = -1
        for index in found:
            if index > best and (is_directory or not self._directories_only[index]):
                best = index
        return None if best < 0 else not self._negated[best]


@frozen
class IgnoreStack:
    """The ignore files that hold in one directory, strongest first: gemcode's own before git's, near before far.

    Git's do not hold for what git tracks. `inside`: in a directory that git ignores, but for the tracked files in it.
    """

    own: tuple[IgnoreFile, ...] = ()
    git: tuple[IgnoreFile, ...] = ()
    tracked: Tracked = Tracked()
    inside: bool = False

    def with_own(self, file: IgnoreFile) -> "IgnoreStack":
        return replace(self, own=(file, *self.own)) if file else self

    def with_git(self, file: IgnoreFile) -> "IgnoreStack":
        return replace(self, git=(file, *self.git)) if file else self

    def __bool__(self) -> bool:
        return bool(self.own or self.git)

    def ignores(self, path: str, is_directory: bool) -> bool:
        encoded = encode_name(path)
        verdict = _first_verdict(self.own, encoded, is_directory) if self.own else None
        if verdict is not None:
            return verdict
        return self._ignored_by_git(encoded, is_directory) and not self.tracked.has(encoded, is_directory)

    def below(self, directory: str) -> "IgnoreStack":
        """The same for what is in a directory that it does not ignore."""
        encoded = encode_name(directory)
        brought_back = self.own and _first_verdict(self.own, encoded, True) is False
        return replace(self, inside=True) if not brought_back and self._ignored_by_git(encoded, True) else self

    def _ignored_by_git(self, path: bytes, is_directory: bool) -> bool:
        return self.inside or _first_verdict(self.git, path, is_directory) is True


def _first_verdict(files: tuple[IgnoreFile, ...], path: bytes, is_directory: bool) -> bool | None:
    for file in files:
        verdict = file.verdict(path, is_directory)
        if verdict is not None:
            return verdict
    return None


@frozen
class _Pattern:
    text: bytes
    negated: bool
    directories_only: bool


def _match_nothing(path: bytes) -> None:
    return None


def _parse(data: bytes) -> tuple[list[_Pattern], str]:
    """The patterns, and a note when the file was cut."""
    note = ""
    if len(data) > MAX_BYTES:
        note = f"is longer than {MAX_BYTES >> 10} KiB and was used up to there"
        data = data[: data.rfind(b"\n", 0, MAX_BYTES) + 1]
    patterns: list[_Pattern] = []
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        if line.startswith(b"#"):
            continue
        pattern = _parse_line(line.removesuffix(b"\r"))
        if pattern is None:
            continue
        if len(patterns) == MAX_PATTERNS:
            note = f"has more than {MAX_PATTERNS} patterns and was used up to there"
            break
        patterns.append(pattern)
    return patterns, note


def _parse_line(line: bytes) -> _Pattern | None:
    line = _trim_trailing_spaces(line.partition(b"\0")[0])
    negated = line.startswith(b"!")
    pattern = line[negated:]
    directories_only = pattern.endswith(b"/")
    if directories_only:
        pattern = pattern[:-1]
    anchored = b"/" in pattern
    pattern = pattern.removeprefix(b"/")
    if not pattern:
        return None
    # Without a slash git compares the last name only, and `**` means no more than `*`.
    text = translate(pattern, literal_length(pattern) if anchored else None)
    if text is None:
        return None
    return _Pattern(text if anchored else b"(?:.*/)?" + text, negated, directories_only)


def _trim_trailing_spaces(line: bytes) -> bytes:
    """Without the spaces at the end, unless a backslash keeps them. Tabs stay, as in git."""
    end = index = 0
    while index < len(line):
        if line[index] == ord("\\"):
            index += 1
            if index == len(line):
                return line
            end = index + 1
        elif line[index] != ord(" "):
            end = index + 1
        index += 1
    return line[:end]
