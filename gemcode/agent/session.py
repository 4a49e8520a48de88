"""Sessions on disk: one append-only JSONL file each, owned by one process at a time. It must not touch the project.

A line that was written stays as it is. A crash leaves at most a torn last line, which is sealed, never rewritten.
"""

import contextlib
import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

from gemcode.agent.conversation import ConversationState, folded
from gemcode.agent.errors import UsageError
from gemcode.agent.messages import UserMessage
from gemcode.agent.transcript import (
    AttemptFailed,
    Committed,
    Entry,
    Opened,
    StepTaken,
    TurnEnded,
    Withdrawn,
    decode_entry,
    encode_entry,
)
from gemcode.frozen import frozen

SUFFIX = ".jsonl"
_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"  # nothing that looks like something else
_APPEND = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_DAY = 86_400.0


@frozen
class Line:
    """One entry and when it was written, in seconds since 1970."""

    time: float
    entry: Entry


@frozen
class SessionInfo:
    """One row of a list of sessions."""

    id: str
    title: str
    updated: float
    turns: int
    model: str
    files: int  # different ones that were changed
    cost_usd: float | None
    bytes: int


class Session:
    """One open session. Its file comes into being with the first message and is locked until it is closed."""

    def __init__(self, store: "SessionStore", identifier: str, descriptor: int | None = None) -> None:
        self.id = identifier
        self.forked_from = ""  # the session that this one is a copy of, because another process has it open
        self.state = ConversationState()
        self._store = store
        self._descriptor = descriptor
        self._answered = descriptor is not None

    def record(self, entry: Entry) -> None:
        """Write an entry through to the file; this is the agent's journal. Raises OSError."""
        if self._descriptor is None:
            if not isinstance(entry, Committed):
                return  # nothing was said yet, so there is nothing to keep
            self.id, self._descriptor = self._store.make_file(self.id, self.forked_from)
        _write(self._descriptor, _encoded(entry))
        prompt = isinstance(entry, Committed) and isinstance(entry.message, UserMessage)
        self._answered = self._answered or (isinstance(entry, Committed | StepTaken | AttemptFailed) and not prompt)
        if isinstance(entry, TurnEnded):
            with contextlib.suppress(OSError):  # a file system without it still has the bytes
                os.fsync(self._descriptor)

    def close(self) -> None:
        """Let it go. A session in which nothing was answered, nor paid for, leaves no file behind."""
        if self._descriptor is None:
            return
        if not self._answered:
            with contextlib.suppress(OSError):
                self._store.unlink(self.id)
        os.close(self._descriptor)
        self._descriptor = None


class SessionStore:
    """The sessions of one project. `project` and `version` are noted in each file, for the reader of it."""

    def __init__(self, directory: Path, project: str = "", version: str = "") -> None:
        self._directory = directory
        self._project = project
        self._version = version

    def create(self) -> Session:
        """A new session. Nothing is written before its first message."""
        return Session(self, self._free_id())

    def resume(self, wanted: str) -> Session:
        """Open a session to go on with it; a copy of it where another process has it open."""
        identifier = self.find(wanted)
        descriptor = self._open(identifier, _APPEND)
        if _locked(descriptor):
            return self._take_over(identifier, descriptor)
        os.close(descriptor)
        lines = self.read(identifier)
        copy, descriptor = self.make_file(self._free_id(), identifier)
        for line in lines:
            if not isinstance(line.entry, Opened):
                _write(descriptor, _encoded(line.entry, line.time))
        session = self._take_over(copy, descriptor)
        session.forked_from = identifier
        return session

    def latest(self) -> str | None:
        """The id of the session that was used last."""
        found = self.infos()
        return found[0].id if found else None

    def find(self, wanted: str) -> str:
        """The one session whose id is or begins with `wanted`. Raises UsageError."""
        matching = [one for one in self._identifiers() if wanted and one.startswith(wanted)]
        if wanted in matching or len(matching) == 1:
            return wanted if wanted in matching else matching[0]
        what = f"Several sessions begin with {wanted!r}." if matching else f"There is no session {wanted!r} here."
        raise UsageError(what, "See the list with: gemcode sessions")

    def infos(self) -> list[SessionInfo]:
        """All sessions in which something was said, the last used first."""
        found = []
        for identifier in self._identifiers():
            with contextlib.suppress(OSError, UsageError):  # deleted meanwhile, or not a file of ours
                found.append(self._info(identifier))
        return sorted((info for info in found if info.turns), key=lambda info: info.updated, reverse=True)

    def read(self, wanted: str) -> list[Line]:
        """Everything that a session's file holds, also while another process adds to it."""
        descriptor = self._open(self.find(wanted), _READ)
        try:
            return list(_lines(_read_all(descriptor)))
        finally:
            os.close(descriptor)

    def read_all(self) -> Iterator[tuple[str, list[Line]]]:
        """All sessions with their lines, one after the other."""
        for identifier in self._identifiers():
            with contextlib.suppress(OSError, UsageError):
                yield identifier, self.read(identifier)

    def delete(self, wanted: str) -> str:
        """Remove a session for good; its id. Raises UsageError for one that is in use."""
        identifier = self.find(wanted)
        descriptor = self._open(identifier, _APPEND)
        try:
            if not _locked(descriptor, where_unsupported=True):
                raise UsageError(f"Session {identifier} is open in another gemcode.", "Close it there first.")
            os.ftruncate(descriptor, 0)  # no other name or open file keeps the text
            self.unlink(identifier)
        finally:
            os.close(descriptor)
        return identifier

    def prune(self, days: float) -> list[str]:
        """Delete what was not used for so many days before the last use of any; the ids that are gone.

        Not before now: a clock that runs years ahead must not take every conversation, nor a long pause the last one.
        """
        used: dict[str, float] = {}
        for identifier in self._identifiers():
            with contextlib.suppress(OSError):
                used[identifier] = (self._directory / (identifier + SUFFIX)).lstat().st_mtime
        oldest = min(time.time(), max(used.values(), default=0.0)) - days * _DAY
        gone = []
        for identifier in (one for one, when in used.items() if when < oldest):
            with contextlib.suppress(OSError, UsageError):
                gone.append(self.delete(identifier))
        return gone

    def make_file(self, identifier: str, forked_from: str = "") -> tuple[str, int]:
        """A new locked file with its first line. The id is another one if somebody took it meanwhile."""
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        while True:
            try:
                descriptor = os.open(self._directory / (identifier + SUFFIX), _APPEND | os.O_CREAT | os.O_EXCL, 0o600)
                break
            except FileExistsError:
                identifier = self._free_id()
        _locked(descriptor)
        _write(descriptor, _encoded(Opened(identifier, self._version, self._project, forked_from)))
        return identifier, descriptor

    def unlink(self, identifier: str) -> None:
        os.unlink(self._directory / (identifier + SUFFIX))

    def _take_over(self, identifier: str, descriptor: int) -> Session:
        """Load a file that is ours now, and mend what a crash left behind."""
        session = Session(self, identifier, descriptor)
        data = _read_all(descriptor)
        if data and not data.endswith(b"\n"):
            _write(descriptor, b"\n")
        session.state = folded(line.entry for line in _lines(data))
        if (results := session.state.repair()) is not None:
            session.record(Committed(results))
        return session

    def _info(self, identifier: str) -> SessionInfo:
        descriptor = self._open(identifier, _READ)
        try:
            status = os.fstat(descriptor)
            state = folded(_light_entries(_read_all(descriptor)))
        finally:
            os.close(descriptor)
        files = len({change.path for change in state.changed})
        return SessionInfo(
            identifier, state.title, status.st_mtime, state.turns, state.model, files, state.cost_usd, status.st_size
        )

    def _open(self, identifier: str, flags: int) -> int:
        path = self._directory / (identifier + SUFFIX)
        try:
            return os.open(path, flags)
        except OSError as error:
            raise UsageError(f"Session {identifier} can't be opened: {error.strerror}.", f"Look at {path}.") from None

    def _identifiers(self) -> Iterator[str]:
        try:
            names = sorted(os.listdir(self._directory))
        except FileNotFoundError:
            return
        yield from (name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))

    def _free_id(self) -> str:
        taken = set(self._identifiers())
        for length in (4, 4, 4, 5, 5, 6):
            identifier = "".join(secrets.choice(_ALPHABET) for _ in range(length))
            if identifier not in taken:
                break
        return identifier


def _encoded(entry: Entry, when: float | None = None) -> bytes:
    """One line of ASCII, so that no byte of it can be mistaken for another line."""
    data = encode_entry(entry)
    data["time"] = round(time.time() if when is None else when, 3)
    return json.dumps(data, separators=(",", ":")).encode("ascii") + b"\n"


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _read_all(descriptor: int) -> bytes:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read()


def _locked(descriptor: int, *, where_unsupported: bool = False) -> bool:
    """Whether the file is ours now. A file system without locks can't tell, so there it is not."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return where_unsupported
    return os.fstat(descriptor).st_nlink > 0


def _lines(data: bytes) -> Iterator[Line]:
    """What can be read. A torn or damaged line is left out; what it leaves behind is mended by the repair."""
    for line in data.split(b"\n"):
        with contextlib.suppress(ValueError, TypeError, RecursionError):
            content = json.loads(line) if line else None
            if isinstance(content, dict) and (entry := decode_entry(content)) is not None:
                yield Line(float(content.get("time", 0.0)), entry)


def _light_entries(data: bytes) -> Iterator[Entry]:
    """What a list needs, without reading the long lines: of all prompts but the first it is enough to know of them."""
    prompts = 0
    for line in data.split(b"\n"):
        if line.startswith(b'{"type":"message","role":"user"'):
            yield from [item.entry for item in _lines(line)] if not prompts else [Committed(UserMessage(()))]
            prompts += 1
        elif not line.startswith((b'{"type":"message"', b'{"type":"compacted"', b'{"type":"call"')):
            for item in _lines(line):
                prompts -= isinstance(item.entry, Withdrawn)
                yield item.entry
