"""The files of the project, in order, bounded: an iterative walk by directory fds that follows no link.

It decides what is shown, never what may be opened.
"""

import errno
import os
import stat
import time
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from gemcode.agent.errors import ToolError
from gemcode.frozen import frozen
from gemcode.workspace import names, osfs, tracked
from gemcode.workspace.ignore import MAX_BYTES, IgnoreFile, IgnoreStack
from gemcode.workspace.refusal import tool_error
from gemcode.workspace.resolve import open_by_walk
from gemcode.workspace.root import Root, closing_on_error
from gemcode.workspace.tracked import Tracked
from gemcode.workspace.wildmatch import compile_glob

_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_IGNORE_FILES = {".gitignore": IgnoreStack.with_git, ".gemcodeignore": IgnoreStack.with_own}
_MOST_NOTES = 20  # of one kind
_LEAST_SCAN = 0.25  # seconds that each directory gets even when the time is up, so that every page moves on
_HANDLE_NOTE = "A path that begins with 'handle:' stands for a name with unusual characters; give it back unchanged."


@frozen
class ListingLimits:
    """How far a walk goes before it stops with a note."""

    entries: int = 1000  # files on one page
    depth: int = 12  # directories below the listed one
    seconds: float = 2.0
    directory_entries: int = 100_000  # names read from one directory


@frozen
class Listing:
    """One page. `links` are those of `files` that are symbolic links."""

    files: tuple[str, ...]
    truncated: bool
    next_cursor: str | None
    notes: tuple[str, ...]
    links: frozenset[str] = frozenset()


class Found(NamedTuple):
    """A file or link of the walk. The fd is the walk's own: use it before the next step, and do not close it."""

    path: str
    directory_fd: int
    name: str
    is_link: bool


@dataclass(slots=True)
class WalkReport:
    """What a walk has to say beside its files; filled while it runs."""

    notes: list[str] = field(default_factory=list)
    cut: bool = False  # something was left out
    resume: str | None = None  # the directory where the time limit stopped the walk
    deadline: float = 0.0

    kinds: Counter[str] = field(default_factory=Counter)  # how many notes there were of each kind

    def note(self, text: str, kind: str = "") -> None:
        """A sentence, once. Of one kind only the first few are told: a tree can be made to give a million of them."""
        self.kinds[kind] += 1
        if self.kinds[kind] <= _MOST_NOTES and text not in self.notes:
            self.notes.append(text)
        elif self.kinds[kind] == _MOST_NOTES + 1:
            self.notes.append(f"… and more like this: {text}")

    def leave_out(self, text: str, kind: str = "") -> None:
        self.cut = True
        self.note(text, kind)


def list_files(
    root: Root,
    path: str = ".",
    pattern: str | None = None,
    *,
    limits: ListingLimits,
    cursor: str | None = None,
) -> Listing:
    """One page of the files below `path`; `pattern` is a glob compared with the path from there or from the root."""
    matches = compile_glob(pattern) if pattern is not None else None
    report = WalkReport()
    files: list[str] = []
    links: set[str] = set()
    last = ""
    for base, (found, _, _, is_link) in _walk(root, path, limits, _from_cursor(cursor), report):
        if matches is not None and not (matches(found) or (base and matches(found[base:]))):
            continue
        if len(files) == limits.entries:
            report.cut, report.resume = True, last
            break
        last = found
        shown = names.to_handle(last)
        files.append(shown)
        if is_link:
            links.add(shown)
        if shown != last:
            report.note(_HANDLE_NOTE)
    next_cursor = None if report.resume is None else names.to_handle(report.resume)
    return Listing(tuple(files), report.cut, next_cursor, tuple(report.notes), frozenset(links))


def walk_files(
    root: Root, path: str = ".", *, limits: ListingLimits, report: WalkReport | None = None
) -> Iterator[Found]:
    """Every file and link below `path`, sorted; `limits.entries` does not count here. It may be closed early."""
    for _, found in _walk(root, path, limits, "", report or WalkReport()):
        yield Found(*found)


@dataclass(slots=True)
class _Level:
    """One open directory of the walk and what is left to do in it."""

    fd: int
    prefix: str  # its path with a slash, or ""
    ignore: IgnoreStack
    waiting: "list[_Entry]"  # the next one last


# What it is sorted by (a directory where its files will be: with a slash), its name, and its kind: "d" directory, "f"
# regular file, "l" link.
_Entry: TypeAlias = tuple[str, str, str]


def _walk(
    root: Root, path: str, limits: ListingLimits, after: str, report: WalkReport
) -> Iterator[tuple[int, tuple[str, int, str, bool]]]:
    """The files after `after`: the length of the listed directory's prefix, and what Found holds (bare, for speed)."""
    deadline = report.deadline = time.monotonic() + limits.seconds
    levels = [_enter_listed(root, path, limits, report)]
    base = len(levels[0].prefix)
    try:
        while levels:
            level = levels[-1]
            if not level.waiting:
                osfs.release(levels.pop().fd)
                continue
            entry = level.waiting.pop()
            end, name, kind = entry
            key = level.prefix + end
            if kind != "d":
                if key > after:
                    yield base, (key, level.fd, name, kind == "l")
            elif after.startswith(key) or key > after:
                if time.monotonic() > deadline and not after.startswith(key):  # each page gets at least one step on
                    report.resume = key
                    report.leave_out(f"Stopped after {limits.seconds:g} s, so there may be more.")
                    return
                below = _enter(root, levels, entry, limits, report)
                if below is not None:
                    levels.append(below)
    finally:
        for level in levels:
            osfs.release(level.fd)


def _enter_listed(root: Root, path: str, limits: ListingLimits, report: WalkReport) -> _Level:
    """Open the listed directory, and read the ignore files from the root down to it on the way."""
    fd, real = root.open_directory_and_name(path)
    osfs.release(fd)
    ignore = _read_exclude(root, report)
    prefix = ""
    try:
        fd = osfs.open(".", _DIRECTORY_FLAGS, dir_fd=root.fd)
        for name in real.split("/") if real != "." else ():
            with closing_on_error(fd):
                ignore = _read_ignore_files(fd, prefix, ignore, _IGNORE_FILES, report)
                below = open_by_walk(fd, name, _DIRECTORY_FLAGS, False)[0]
            osfs.release(fd)
            fd = below
            prefix += name + "/"
        with closing_on_error(fd):
            return _scan(fd, prefix, ignore, limits, report)
    except OSError as error:
        raise tool_error(error, path) from error


def _enter(root: Root, levels: list[_Level], entry: _Entry, limits: ListingLimits, report: WalkReport) -> _Level | None:
    """The directory below, or None with a note when it can't or may not be entered."""
    level = levels[-1]
    key, name, _ = entry
    prefix = level.prefix + key
    if root.is_own(prefix[:-1]):
        return None
    shown = names.to_handle(prefix[:-1])
    if len(levels) > limits.depth:
        report.leave_out(f"{shown} is too deep and was not entered; list it by itself.", "deep")
        return None
    try:
        fd = open_by_walk(level.fd, name, _DIRECTORY_FLAGS, False)[0]
        with closing_on_error(fd):
            root.admit(fd, shown)
            ignore = level.ignore.below(prefix[:-1]) if level.ignore else level.ignore
            return _scan(fd, prefix, ignore, limits, report)
    except ToolError as error:
        report.leave_out(error.message, error.kind)
        return None
    except OSError as error:
        if error.errno != errno.ENOENT:
            report.leave_out(f"{shown} could not be listed: {os.strerror(error.errno or errno.EIO)}.", "error")
        return None


def _scan(fd: int, prefix: str, ignore: IgnoreStack, limits: ListingLimits, report: WalkReport) -> _Level:
    kinds: dict[str, str] = {}
    with osfs.scandir(fd) as entries:
        for entry in entries:
            if len(kinds) == limits.directory_entries:
                report.leave_out(f"{names.to_handle(prefix) or '.'} has more than {limits.directory_entries} entries.")
                break
            kinds[entry.name] = _kind(entry)
    ignore = _read_ignore_files(fd, prefix, ignore, kinds, report)
    ignores = ignore.ignores if ignore else None
    doubtful = names.may_be_never(kinds)
    waiting: list[_Entry] = []
    deadline = max(report.deadline, time.monotonic() + _LEAST_SCAN)
    for name, kind in kinds.items():
        if ignores and time.monotonic() > deadline:  # ignore rules can be made to cost a tenth of a second a name
            report.leave_out(f"{names.to_handle(prefix) or '.'} takes too long to list, so there may be more.")
            break
        if kind and not (ignores and ignores(prefix + name, kind == "d")) and not (doubtful and names.is_never(name)):
            waiting.append((name + "/" if kind == "d" else name, name, kind))
    waiting.sort(reverse=True)
    return _Level(fd, prefix, ignore, waiting)


def _kind(entry: "os.DirEntry[str]") -> str:
    if entry.is_file(follow_symlinks=False):
        return "f"
    if entry.is_dir(follow_symlinks=False):
        return "d"
    return "l" if entry.is_symlink() else ""


def _read_exclude(root: Root, report: WalkReport) -> IgnoreStack:
    """What git keeps for this clone: its own exclude file, and which files it tracks in spite of all rules."""
    stack = IgnoreStack(tracked=Tracked(lambda: _read_own(root, ".git/index", tracked.MAX_BYTES)))
    data = _read_own(root, ".git/info/exclude", MAX_BYTES + 1)
    return stack.with_git(_compile(data, "", ".git/info/exclude", report))


def _read_own(root: Root, path: str, limit: int) -> bytes:
    """The beginning of a file of git's; nothing where there is none."""
    try:
        with root.open_file(path, internal=True) as file:
            return osfs.read_all(file.fd, limit)
    except (ToolError, OSError):
        return b""


def _read_ignore_files(
    fd: int, prefix: str, ignore: IgnoreStack, present: Container[str], report: WalkReport
) -> IgnoreStack:
    """`ignore` with this directory's own ignore files on top. A link in their place is not followed, as in git."""
    for name, push in _IGNORE_FILES.items():
        if name in present and (data := _read_regular(fd, name)) is not None:
            ignore = push(ignore, _compile(data, prefix, prefix + name, report))
    return ignore


def _read_regular(directory_fd: int, name: str) -> bytes | None:
    try:
        fd = osfs.open(name, _READ_FLAGS, dir_fd=directory_fd)
    except OSError:
        return None
    try:
        return osfs.read_all(fd, MAX_BYTES + 1) if stat.S_ISREG(osfs.fstat(fd).st_mode) else None
    except OSError:
        return None
    finally:
        osfs.release(fd)


def _compile(data: bytes, directory: str, shown: str, report: WalkReport) -> IgnoreFile:
    file = IgnoreFile(data, directory)
    if file.note:
        report.note(f"{names.to_handle(shown)} {file.note}.")
    return file


def _from_cursor(cursor: str | None) -> str:
    if cursor is None:
        return ""
    return names.from_handle(cursor) if cursor.startswith(names.HANDLE_PREFIX) else cursor
