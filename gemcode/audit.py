"""The tamper-evident log of every tool execution: one JSON line for the intent, one for the outcome, each chained to
the line before by its hash. Promises evidence against outsiders, not against the user, who owns the file."""

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemcode.agent.messages import ToolCall, ToolResult
from gemcode.agent.policy import Effect
from gemcode.workspace import osfs

ROTATE_BYTES = 32 * 1024 * 1024
LONGEST_VALUE = 256  # longer strings are recorded as their hash and size
GENESIS = "0" * 64
_TAIL = 64 * 1024

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check of the log found. No problems: the log is whole."""

    records: int
    head: str
    problems: tuple[str, ...]


class Audit:
    """Appends to the log of one project. Several processes may; each append is one locked write."""

    def __init__(self, directory: Path, session: str) -> None:
        self.directory = directory
        self._session = session

    def intent(self, call: ToolCall, effect: Effect) -> object:
        """Record that a call is about to run. Raises OSError: then a write must not run."""
        return self._append({"event": "intent", "tool": call.name, "effect": effect.value, "args": digest(call.args)})

    def outcome(self, entry: object, call: ToolCall, decision: str, result: ToolResult) -> None:
        record = {"event": "outcome", "of": entry, "tool": call.name, "decision": decision, "ok": result.ok}
        if not result.ok:
            record |= {"error": result.error_kind, "message": digest(result.error_message)}
        self._append(record)

    def _append(self, content: Record) -> int:
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        with _locked(self.directory) as folder:
            sequence, head = _rotate_and_find_head(self.directory, folder)
            record = {
                "seq": sequence + 1,
                "time": time.time(),
                "monotonic": time.monotonic(),
                "session": self._session,
                "pid": os.getpid(),
                **content,
                "prev": head,
            }
            record["hash"] = _hash(record)
            fd = _open_log(folder)
            try:
                osfs.write_all(fd, _line(record))
            finally:
                osfs.close(fd)
            _write_head(folder, record)
            return sequence + 1


def read(directory: Path) -> Iterator[Record]:
    """All records that parse, oldest first."""
    for _, _, record in _lines(directory):
        if record is not None:
            yield record


def verify(directory: Path) -> Verdict:
    """Walk the whole chain, through all rotated files, and compare its end with the anchor."""
    problems: list[str] = []
    head, sequence, seen = GENESIS, 0, {0: GENESIS}
    for file, number, record in _lines(directory):
        where = f"{file}:{number}"
        if record is None:
            problems.append(f"{where}: not a record (a line cut by a crash, or damage)")
            continue
        if record.get("hash") != _hash(record):
            problems.append(f"{where}: the record was altered")
        if record.get("prev") != head or record.get("seq") != sequence + 1:
            problems.append(f"{where}: the chain is broken (a record is missing, moved or altered before it)")
        head, sequence = str(record.get("hash")), int(record.get("seq", sequence + 1))
        seen[sequence] = head
    anchor = _read_head(directory)
    if anchor is None and sequence:
        problems.append("audit.head is missing: the end of the log can't be checked")
    elif anchor is not None and seen.get(anchor[0]) != anchor[1]:
        problems.append(f"the end of the log is missing: {anchor[0]} records were written, {sequence} are here")
    return Verdict(sequence, head, tuple(problems))


def digest(value: Any) -> Any:
    """The value with every long string replaced by its hash and size: contents are evidence, not cargo."""
    if isinstance(value, str):
        data = value.encode("utf-8", "surrogatepass")
        short = len(data) <= LONGEST_VALUE
        return value if short else {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    if isinstance(value, dict):
        return {str(key): digest(item) for key, item in value.items()}
    return [digest(item) for item in value] if isinstance(value, list | tuple) else value


def _canonical(record: Record) -> bytes:
    return json.dumps(record, ensure_ascii=True, sort_keys=True, separators=(",", ":")).encode("ascii")


def _line(record: Record) -> bytes:
    return _canonical(record) + b"\n"


def _hash(record: Record) -> str:
    return hashlib.sha256(_canonical({key: value for key, value in record.items() if key != "hash"})).hexdigest()


@contextmanager
def _locked(directory: Path) -> Iterator[int]:
    """The directory's fd, with the lock on all its logs held."""
    folder = osfs.open(str(directory), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        osfs.flock(folder, fcntl.LOCK_EX)
        yield folder
    finally:
        osfs.close(folder)


def _open_log(folder: int) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return osfs.open("audit.jsonl", flags, 0o600, dir_fd=folder)


def _rotate_and_find_head(directory: Path, folder: int) -> tuple[int, str]:
    """The last sequence number and hash, after sealing a torn tail and starting a new file where this one is full."""
    fd = _open_log(folder)
    try:
        size = osfs.fstat(fd).st_size
        tail = os.pread(fd, _TAIL, max(0, size - _TAIL))
        if tail and not tail.endswith(b"\n"):
            osfs.write_all(fd, b"\n")
        found = _last_record(tail)
        if found is None and size > 0:
            found = _last_record(os.pread(fd, size, 0))
    finally:
        osfs.close(fd)
    if found is None:
        older = _rotated(directory)
        found = _last_record(older[-1].read_bytes()) if older else None
    if size >= ROTATE_BYTES and found is not None:
        osfs.rename(folder, "audit.jsonl", folder, f"audit-{found[0]:012d}.jsonl")
    return found or (0, GENESIS)


def _last_record(data: bytes) -> tuple[int, str] | None:
    for line in reversed(data.splitlines()):
        record = _parse(line)
        if record is not None:
            return int(record["seq"]), str(record["hash"])
    return None


def _parse(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and {"seq", "hash", "prev"} <= record.keys() else None


def _lines(directory: Path) -> Iterator[tuple[str, int, Record | None]]:
    current = directory / "audit.jsonl"
    for path in [*_rotated(directory), *([current] if current.exists() else [])]:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield path.name, number, _parse(line)


def _rotated(directory: Path) -> list[Path]:
    return sorted(directory.glob("audit-*.jsonl"))


def _write_head(folder: int, record: Record) -> None:
    """Anchor the end of the log in a second file: a chain alone does not show that its tail was cut."""
    name = ".audit.head.new"
    fd = osfs.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        osfs.write_all(fd, f"{record['seq']} {record['hash']}\n".encode("ascii"))
    finally:
        osfs.close(fd)
    osfs.rename(folder, name, folder, "audit.head")


def _read_head(directory: Path) -> tuple[int, str] | None:
    try:
        sequence, head = (directory / "audit.head").read_text(encoding="ascii").split()
        return int(sequence), head
    except (OSError, ValueError):
        return None
