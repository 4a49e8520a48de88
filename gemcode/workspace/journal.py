"""The write journal of one project: what was about to be written, and what came of it. Append-only JSON lines.

It only records. A kill leaves an intent without an end, which recovery.py finds; a torn tail is sealed, not rewritten.
"""

import json
import os
import re
import secrets
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

from gemcode.agent.errors import ToolError
from gemcode.frozen import frozen
from gemcode.workspace import osfs
from gemcode.workspace.locks import EXCLUSIVE, PATIENCE, LockFile, close_quietly
from gemcode.workspace.name_rules import TEMPORARY_PREFIX
from gemcode.workspace.objects import OBJECT_NAME, Hash, put_file

NAME = "journal.jsonl"
_TEMPORARY = re.compile(re.escape(TEMPORARY_PREFIX) + "[0-9a-f]+")
_FAR_FUTURE = 1e11  # seconds; a calendar ends somewhere
ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # base 32 without letters that look like others
Identity = tuple[int, int]
Status = Literal["open", "written", "durability_unknown", "not_written", "kept"]
Action = Literal["created", "modified", "deleted", "kept"]


@frozen
class Intent:
    """What a write is about to do; `old` or `new` is None where there is no file before or after it."""

    path: str
    old: Hash | None
    new: Hash | None
    mode: int
    turn: str
    reason: str
    temporary: str
    directories: tuple[str, ...]


@frozen
class WriteRecord:
    """One entry of the history. A "kept" one is a version set aside: `old` is its content, for restore."""

    id: str
    sequence: int
    time: float
    session: str
    process: str
    intent: Intent
    status: Status
    ready: tuple[Identity, Identity] | None = None  # the temporary file and the directory, once complete on disk

    @property
    def path(self) -> str:
        return self.intent.path

    @property
    def action(self) -> Action:
        if self.status == "kept":
            return "kept"
        return "created" if self.intent.old is None else "deleted" if self.intent.new is None else "modified"

    @property
    def happened(self) -> bool:
        return self.status in ("written", "durability_unknown")


class Journal:
    """The file, and what it says so far. Several processes append; each append reads what the others added first."""

    def __init__(self, project_fd: int, session: str, process: str) -> None:
        self.records: dict[str, WriteRecord] = {}
        self.damaged = 0
        self._directory = project_fd
        self._session = session
        self._process = process
        self._lines: list[tuple[str, str]] = []
        self._sequence = 0
        self._offset = 0
        self._open()

    def begin(self, intent: Intent) -> str:
        """Record, durably, what is about to be written; the id of the write."""
        return self._append({"kind": "intent", **_intent_json(intent)}, new_id=True)

    def ready(self, id: str, temporary: Identity, directory: Identity) -> None:
        """The new content is complete at its temporary name; from now on the name may hold the user's file."""
        self._append({"kind": "ready", "id": id, "temporary": temporary, "directory": directory})

    def end(self, id: str, status: Status) -> None:
        self._append({"kind": "end", "id": id, "status": status})

    def keep(self, path: str, content: Hash, reason: str, turn: str = "") -> str:
        """Record a version that was set aside; the id that brings it back."""
        intent = Intent(path, content, None, 0o600, turn, reason, "", ())
        return self._append({"kind": "keep", **_intent_json(intent)}, new_id=True)

    def refresh(self) -> None:
        """Read what was appended since the last time."""
        data = osfs.read_all(self._fd, 1 << 40, self._offset)
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.decode("ascii", "replace").split("\n")[:-1]:
            self._apply(line + "\n")

    def rewrite(self, keep: Iterable[str], note: dict[str, Any]) -> None:
        """Only these records and a note of the removal. Needs the project's exclusive lock."""
        wanted = set(keep)
        lines = [line for id, line in self._lines if id in wanted]
        lines.append(_line({"kind": "prune", "seq": self._sequence + 1, "time": time.time(), **note}))
        put_file(self._directory, NAME, "".join(lines).encode("ascii"), 0o600)
        self.close()
        self.records.clear()
        self._lines.clear()
        self._offset = self.damaged = 0
        self._open()

    def close(self) -> None:
        close_quietly(self._fd)

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        self._fd = osfs.open(NAME, flags, 0o600, dir_fd=self._directory)
        try:
            osfs.fsync(self._directory)
            self.refresh()
        except BaseException:
            close_quietly(self._fd)
            raise

    def _append(self, fields: dict[str, Any], *, new_id: bool = False) -> str:
        lock = LockFile(self._directory, "journal.lock")
        try:
            if lock.acquire(EXCLUSIVE, PATIENCE) == "busy":
                raise ToolError("busy", "Another gemcode holds the write journal; try again.")
            self.refresh()
            id: str = self._unused_id() if new_id else fields["id"]
            head = {"seq": self._sequence + 1, "time": time.time(), "session": self._session, "process": self._process}
            line = _line({**head, **fields, "id": id})
            size = osfs.fstat(self._fd).st_size
            torn = size > self._offset
            data = ("\n" * torn + line).encode("ascii")
            osfs.write_all(self._fd, data)
            osfs.fsync(self._fd)
        finally:
            lock.close()
        # Taken in without reading it back, which could fail after the line is durable.
        self._offset = size + len(data)
        self.damaged += torn
        self._apply(line)
        return id

    def _unused_id(self) -> str:
        length = 4 + (len(self.records) > 50_000) + (len(self.records) > 1_000_000)
        while True:
            id = "".join(secrets.choice(ALPHABET) for _ in range(length))
            if id not in self.records:
                return id

    def _apply(self, line: str) -> None:
        try:
            entry = json.loads(line)
            self._sequence = max(self._sequence, int(entry["seq"]))
            self._take(entry)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            self.damaged += 1
        else:
            self._lines.append((str(entry.get("id", "")), line))

    def _take(self, entry: dict[str, Any]) -> None:
        match entry["kind"]:
            case "intent" | "keep" as kind:
                directories = tuple(map(str, entry["directories"]))
                intent = Intent(**{**{name: entry[name] for name in Intent.__match_args__}, "directories": directories})
                _check(intent)
                who = (str(entry["session"]), str(entry["process"]))
                status: Status = "kept" if kind == "keep" else "open"
                id = str(entry["id"])
                time = float(entry["time"])
                if not 0 <= time < _FAR_FUTURE:
                    raise ValueError(time)
                self.records[id] = WriteRecord(id, int(entry["seq"]), time, *who, intent, status)
            case "ready":
                (a, b), (c, d) = entry["temporary"], entry["directory"]
                self.records[entry["id"]] = replace(self.records[entry["id"]], ready=((a, b), (c, d)))
            case "end":
                self.records[entry["id"]] = replace(self.records[entry["id"]], status=entry["status"])


def _check(intent: Intent) -> None:
    """ValueError for what no gemcode has written: a damaged line must not name a file that recovery would remove."""
    texts = (intent.path, intent.turn, intent.reason, intent.temporary)
    hashes = [content for content in (intent.old, intent.new) if content is not None]
    ours = intent.temporary == "" or _TEMPORARY.fullmatch(intent.temporary)
    if not all(isinstance(text, str) for text in texts) or not isinstance(intent.mode, int) or not ours:
        raise ValueError(intent)
    if not all(isinstance(content, str) and OBJECT_NAME.fullmatch(content) for content in hashes):
        raise ValueError(intent)


def _intent_json(intent: Intent) -> dict[str, Any]:
    return {name: getattr(intent, name) for name in Intent.__match_args__}


def _line(fields: dict[str, Any]) -> str:
    return json.dumps(fields, separators=(",", ":")) + "\n"
