"""The tamper-evident log of every tool execution: one JSON line for the intent, one for the outcome, each chained to
the line before by its hash. Promises evidence against outsiders, not against the user, who owns the file.

A kill may leave a torn line, which is sealed and never rewritten; it is no sign of tampering, because the chain goes on
around it. A chain does not show that its end was cut off, so the end is also kept in a second file, the anchor.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gemcode.agent import evidence
from gemcode.agent.evidence import Record, canonical
from gemcode.agent.messages import ToolCall, ToolResult
from gemcode.agent.policy import Effect
from gemcode.workspace import locks, osfs

ROTATE_BYTES = 32 * 1024 * 1024
LONGEST_LINE = 64 * 1024  # no record is as long as that
GENESIS = "0" * 64
_LOG, _ANCHOR, _LOCK = "audit.jsonl", "audit.head", "audit.lock"
_ROTATED = re.compile(r"audit-\d{12,}\.jsonl")
_ANCHOR_BYTES = 20 + 1 + 64 + 1
_MOST_RECORDS = 10**19  # as many as the anchor has digits for
_HASH = re.compile(r"[0-9a-f]{64}")
_BEGINNINGS = (b'{"args":', b'{"decision":')  # of an intent and of an outcome, in canonical JSON
_TAILS = (2048, LONGEST_LINE, 1 << 20, 1 << 40)  # how much of the end is read to find the last record


class End(NamedTuple):
    """The last record of a log: its number and its hash."""

    sequence: int
    hash: str


_START = End(0, GENESIS)


@dataclass(slots=True)
class Verdict:
    """What a check of the log found. No problems: the log is whole. `torn` lines and `unfinished` calls are what a kill
    leaves behind; no record is missing because of them."""

    records: int = 0
    head: str = GENESIS
    problems: list[str] = field(default_factory=list)
    torn: int = 0
    unfinished: int = 0


class Audit:
    """Appends to the log of one project. Several processes may; each append is one locked write."""

    def __init__(self, directory: Path, session: str, rotate_bytes: int = ROTATE_BYTES) -> None:
        self.directory = directory
        self._session = session
        self._rotate_bytes = rotate_bytes
        self._left = (0, 0, _START)  # the log's inode and size after our last record, and that record

    def intents(self, calls: Iterable[tuple[ToolCall, Effect]]) -> Sequence[object]:
        """Record that calls are about to run, all in one write. Raises OSError: then a write must not run."""
        return self._append(evidence.of_intent(call, effect) for call, effect in calls)

    def outcome(self, entry: object, call: ToolCall, decision: str, result: ToolResult) -> None:
        """Record what became of it. Raises OSError: then the intent stays without an outcome, which can be seen."""
        self._append([{"of": entry, **evidence.of_outcome(call, decision, result)}])

    def _append(self, contents: Iterable[Record]) -> Sequence[int]:
        with _opened(self.directory) as folder, _locked(folder):
            last = self._end_as_left(folder) or self._end(folder)
            first, lines = last.sequence + 1, b""
            for content in contents:
                record: Record = {"seq": last.sequence + 1, "time": time.time(), "monotonic": time.monotonic()}
                record |= {"session": self._session, "pid": os.getpid(), **content, "prev": last.hash}
                last = End(record["seq"], _hash(record))
                lines += canonical({**record, "hash": last.hash}) + b"\n"
            with _file(folder, _LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND) as fd:
                osfs.write_all(fd, lines)
                status = osfs.fstat(fd)
            _write_anchor(folder, last)
            self._left = status.st_ino, status.st_size, last
            return range(first, last.sequence + 1)

    def _end_as_left(self, folder: int) -> End | None:
        """Our own last record, if the log ends where we left it: then there is nothing to read and nothing to seal."""
        inode, size, end = self._left
        if 0 < size < self._rotate_bytes:
            with contextlib.suppress(FileNotFoundError):
                status = osfs.fstatat(folder, _LOG)
                return end if (status.st_ino, status.st_size) == (inode, size) else None
        return None

    def _end(self, folder: int) -> End:
        """Where the next record goes on: after the last one or, if the anchor knows of a later one that is gone,
        after that, so that the gap stays visible for ever. A torn end is sealed, and a full file put aside."""
        with _file(folder, _LOG, os.O_RDWR | os.O_CREAT | os.O_APPEND) as fd:
            size = osfs.fstat(fd).st_size
            last, sealed = _last_record(fd, size)
            if not sealed:
                osfs.write_all(fd, b"\n")
        if last is None and (older := _rotated(folder)):
            with _file(folder, older[-1], os.O_RDONLY) as fd:
                last, _ = _last_record(fd, osfs.fstat(fd).st_size)
        if last is not None and size >= self._rotate_bytes:
            osfs.rename(folder, _LOG, folder, f"audit-{last.sequence:012d}.jsonl")
        anchor = _read_anchor(folder) or _START
        if last is None:
            _write_anchor(folder, anchor)  # before the first record: no log of ours is ever without
            return anchor
        return anchor if anchor.sequence >= last.sequence else last


def read(directory: Path) -> Iterator[Record]:
    """All records that parse, oldest first."""
    with _snapshot(directory) as (_, files):
        for line in _lines(files):
            if line.record is not None:
                yield line.record


def verify(directory: Path) -> Verdict:
    """Walk the whole chain, through all rotated files, and compare its end with the anchor."""
    verdict = Verdict()
    with _snapshot(directory) as (anchor, files):
        _follow(verdict, _lines(files), anchor)
    return verdict


class _Line(NamedTuple):
    where: str
    record: Record | None  # None: not a record
    torn: bool = False  # the beginning of one


def _follow(verdict: Verdict, lines: Iterator[_Line], anchor: End | None) -> None:
    last, anchored, open_calls = _START, anchor is None or anchor == _START, set[int]()
    for where, record, torn in lines:
        if torn:
            verdict.torn += 1
        elif record is None:
            verdict.problems.append(f"{where}: not a line that gemcode wrote")
        if record is None:
            continue
        if not _is_intact(record):
            verdict.problems.append(f"{where}: the record was altered")
        if (record["seq"], record["prev"]) != (last.sequence + 1, last.hash):
            gone = _missing(last, End(record["seq"] - 1, record["prev"]))
            verdict.problems.append(f"{where}: the chain is broken: {gone}")
        verdict.records += 1
        last = End(record["seq"], record["hash"])
        anchored = anchored or last == anchor
        if record.get("event") == "intent":
            open_calls.add(last.sequence)
        elif isinstance(intent := record.get("of"), int):
            open_calls.discard(intent)
    if anchor is None and verdict.records:
        verdict.problems.append(f"{_ANCHOR} is missing or damaged: whether the end of the log was cut can't be checked")
    elif anchor is not None and not anchored:
        verdict.problems.append(f"the end of the log: {_missing(last, anchor)}")
    verdict.head, verdict.unfinished = last.hash, len(open_calls)


def _missing(last: End, expected: End) -> str:
    if expected.sequence <= last.sequence:
        return "a record was replaced, repeated or moved"
    first = last.sequence + 1
    numbers = f"record {first} is" if expected.sequence == first else f"records {first} to {expected.sequence} are"
    return f"{numbers} missing (removed, or lost in a power cut)"


def _hash(record: Record) -> str:
    return hashlib.sha256(canonical({key: value for key, value in record.items() if key != "hash"})).hexdigest()


def _is_intact(record: Record) -> bool:
    try:
        return bool(record["hash"] == _hash(record))
    except RecursionError:
        return False


def _parse(line: bytes) -> Record | None:
    """The record, or None for anything else."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or type(record.get("seq")) is not int or not 0 < record["seq"] < _MOST_RECORDS:
        return None
    hashes = (record.get("hash"), record.get("prev"))
    return record if all(isinstance(item, str) and _HASH.fullmatch(item) for item in hashes) else None


def _is_torn(line: bytes) -> bool:
    """Whether this is the beginning of a record and no more, or what a power cut makes of it: zeros."""
    written = line.rstrip(b"\0")
    if not any(first.startswith(written[: len(first)]) for first in _BEGINNINGS):
        return False
    try:
        json.loads(written)
    except ValueError:
        return True
    except RecursionError:  # no record of ours is nested that deep
        return False
    return False


# --- files ---


@contextlib.contextmanager
def _opened(directory: Path, *, create: bool = True) -> Iterator[int]:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        folder = osfs.open(str(directory), flags)
    except FileNotFoundError:
        if not create:
            raise
        os.makedirs(directory, mode=0o700, exist_ok=True)
        folder = osfs.open(str(directory), flags)
    try:
        yield folder
    finally:
        osfs.release(folder)


@contextlib.contextmanager
def _locked(folder: int) -> Iterator[None]:
    """Alone among all gemcodes, or OSError after a while: a stopped process must not stop the others. Where the file
    system has no locks, only one session may run anyway (see workspace/store.py)."""
    lock = locks.LockFile(folder, _LOCK)
    try:
        if lock.acquire(locks.EXCLUSIVE, locks.PATIENCE) == "busy":
            raise OSError(errno.EAGAIN, "another gemcode holds the audit log")
        yield
    finally:
        lock.close()


def _open(folder: int, name: str, flags: int) -> int:
    return osfs.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600, dir_fd=folder)


@contextlib.contextmanager
def _file(folder: int, name: str, flags: int) -> Iterator[int]:
    fd = _open(folder, name, flags)
    try:
        yield fd
    finally:
        osfs.close(fd)


def _last_record(fd: int, size: int) -> tuple[End | None, bool]:
    """The last record, and whether the file ends with a line end. As little as possible is read."""
    sealed = True
    for length in _TAILS:
        start = max(0, size - length)
        tail = osfs.read_all(fd, size - start, start)
        sealed = not tail or tail.endswith(b"\n")
        lines = tail.split(b"\n")
        for line in reversed(lines if start == 0 else lines[1:]):
            if line and (record := _parse(line)) is not None:
                return End(record["seq"], record["hash"]), sealed
        if start == 0:
            break
    return None, sealed


def _rotated(folder: int) -> list[str]:
    return sorted(filter(_ROTATED.fullmatch, osfs.listdir(folder)), key=lambda name: (len(name), name))


def _read_anchor(folder: int) -> End | None:
    try:
        with _file(folder, _ANCHOR, os.O_RDONLY) as fd:
            sequence, head = osfs.read_all(fd, _ANCHOR_BYTES).decode("ascii").split()
            return End(int(sequence), head) if _HASH.fullmatch(head) else None
    except (FileNotFoundError, ValueError):
        return None


def _write_anchor(folder: int, end: End) -> None:
    """In place: one write of a fixed length within one disk sector, which no kill can tear. A rename over the old
    anchor would cost a flush to the disk on ext4, ten times as much as all the rest."""
    with _file(folder, _ANCHOR, os.O_WRONLY | os.O_CREAT) as fd:
        osfs.write_all(fd, f"{end.sequence:020d} {end.hash}\n".encode("ascii"))


def _current_then_rotated(folder: int) -> Iterator[str]:
    """Lazily: the rotated ones are looked up once the current one is open."""
    yield _LOG
    yield from _rotated(folder)


_Files = list[tuple[str, BinaryIO, int]]  # name, content, and how much of it belongs to the check


@contextlib.contextmanager
def _snapshot(directory: Path) -> Iterator[tuple[End | None, _Files]]:
    """The anchor and the files that hold its record. It needs no lock: the anchor is read first, so the log can only
    be ahead of it; the current file is opened next, and found again by its identity if it is put aside meanwhile."""
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(_opened(directory, create=False))
        except FileNotFoundError:
            yield None, []
            return
        anchor = _read_anchor(folder)
        while (again := _read_anchor(folder)) != anchor:  # it was being written just then
            anchor = again
        files = _open_all(folder, stack)
        if anchor is None and (anchor := _read_anchor(folder)) is not None:  # the very first record came just then
            files = _open_all(folder, stack)
        yield anchor, files


def _open_all(folder: int, stack: contextlib.ExitStack) -> _Files:
    """The files of the log, oldest first, each with the size that it has now."""
    files: dict[int, tuple[str, BinaryIO, int]] = {}
    for name in _current_then_rotated(folder):
        with contextlib.suppress(FileNotFoundError):
            file = stack.enter_context(os.fdopen(_open(folder, name, os.O_RDONLY), "rb"))
            status = osfs.fstat(file.fileno())
            files[status.st_ino] = (name, file, status.st_size)
    return sorted(files.values(), key=lambda item: (item[0] == _LOG, len(item[0]), item[0]))


def _lines(files: _Files) -> Iterator[_Line]:
    """Line by line, none of them longer than a record can be."""
    for name, file, left in files:
        number = 0
        while left > 0 and (line := file.readline(min(left, LONGEST_LINE))):
            number += 1
            left -= len(line)
            where = f"{name}:{number}"
            if not line.endswith(b"\n") and left > 0:
                while left > 0 and (rest := file.readline(min(left, LONGEST_LINE))):
                    left -= len(rest)
                    if rest.endswith(b"\n"):
                        break
                yield _Line(where, None)
            elif line != b"\n":
                content = line.removesuffix(b"\n")
                record = _parse(content)
                yield _Line(where, record, record is None and _is_torn(content))
