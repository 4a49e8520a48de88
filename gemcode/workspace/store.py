"""The backup store as a session uses it: open it, take a write lock, back up, look at the history, verify, close.

It lives outside of the project, which it never touches but to clean up after a process that died (recovery.py).
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Self

from gemcode.agent.errors import ToolError, UsageError
from gemcode.frozen import frozen
from gemcode.workspace import locks, osfs
from gemcode.workspace.area import Area, open_project, open_state_directory
from gemcode.workspace.displaced import Displaced
from gemcode.workspace.journal import Identity, WriteRecord
from gemcode.workspace.objects import Hash, ensure_directory, put_file
from gemcode.workspace.recovery import recover
from gemcode.workspace.retention import Limits, Pruned, prune, prune_others, usage_elsewhere
from gemcode.workspace.root import Root

_OWNER = "owner"


@frozen
class Verification:
    """What a full check of the store found."""

    objects: int
    size: int
    damaged: tuple[Hash, ...]
    missing: tuple[str, ...]  # ids of writes whose old content is gone
    journal_lines_damaged: int

    @property
    def sound(self) -> bool:
        return not self.damaged and not self.missing


class Store:
    """What every write needs: a backup first, a journal, a lock, and a place where nothing gets lost."""

    def __init__(self, directory: Path, projects: int, area: Area, session: str, limits: Limits) -> None:
        self.directory = directory
        self._projects = projects
        self.area = area
        self.session = session
        self.limits = limits
        self.displaced = Displaced(area)
        self.notices: list[str] = []  # what the person must hear: late saves, recoveries; the caller empties it
        self._lock = locks.LockFile(area.fd, "lock")
        self._owner = False
        self._used = 0
        self._elsewhere = 0
        self._opened = contextlib.ExitStack()

    @classmethod
    def open(cls, state_dir: str | os.PathLike[str], root: Root, session_id: str, limits: Limits | None = None) -> Self:
        """Open or create the project's store, clean up after dead processes, and prune if no other session runs."""
        limits = limits or Limits()
        try:
            with contextlib.ExitStack() as opened:
                state = open_state_directory(Path(state_dir))
                opened.callback(locks.close_quietly, state)
                projects = ensure_directory(state, "projects")
                opened.callback(locks.close_quietly, projects)
                shards = ensure_directory(state, "locks")
                opened.callback(locks.close_quietly, shards)
                with locks.holding(state, "lock") as free:
                    if not free:
                        raise UsageError("Another gemcode is starting and does not finish.", "Try again.")
                    name, fd = open_project(projects, root)
                    area = Area(fd, shards, session_id, limits.file_bytes)
                opened.callback(area.close)
                store = cls(Path(state_dir) / "projects" / name, projects, area, session_id, limits)
                opened.callback(store._leave)
                store._start(root)
                store._opened = opened.pop_all()  # all of it or, after an error, none
        except OSError as error:
            raise UsageError(
                f"The backup store in {state_dir} can't be used: {error.strerror}.",
                "Nothing is written without backups: free some space, mend the directory, or set GEMCODE_HOME.",
            ) from error
        return store

    def _start(self, root: Root) -> None:
        alone = self._join()
        self.notices += recover(self.area, root)
        if alone:
            prune(self.area, self.limits)
        self._used = self.area.usage()
        self._elsewhere = usage_elsewhere(self._projects, self.area)
        self._make_room(0)
        if not self._owner:
            self._lock.acquire(locks.SHARED)

    def _join(self) -> bool:
        """Become one of the project's sessions; whether it is the only one."""
        outcome = self._lock.acquire(locks.EXCLUSIVE)
        if outcome == "busy" and self._lock.acquire(locks.SHARED, locks.PATIENCE) == "busy":
            raise UsageError(
                "Another gemcode is cleaning up this project's backups.", "Try again when it has finished."
            )
        if outcome == "unsupported":
            self._claim()
        return outcome != "busy"

    def _claim(self) -> None:
        """Where the file system has no locks there can be one session only: its name is in a file."""
        with contextlib.suppress(FileNotFoundError):
            fd = osfs.open(_OWNER, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=self.area.fd)
            try:
                owner = osfs.read_all(fd, 4096).decode("ascii", "replace")
            finally:
                locks.close_quietly(fd)
            if locks.is_alive(owner):
                raise UsageError(
                    "Another gemcode session is open in this project, and the state directory has no file locks.",
                    "Close the other session, or set GEMCODE_HOME to a local disk.",
                )
        put_file(self.area.fd, _OWNER, locks.this_process().encode("ascii"), 0o600)
        self._owner = True

    def history(self, path: str | None = None) -> list[WriteRecord]:
        """The writes that happened and the versions set aside, the newest first."""
        with _reported():
            self.area.journal.refresh()
        records = [r for r in self.area.journal.records.values() if r.happened or r.status == "kept"]
        records.sort(key=lambda record: record.sequence, reverse=True)
        return [record for record in records if path is None or record.path == path]

    def find(self, id: str) -> WriteRecord:
        """The entry of the history with this id."""
        for record in self.history():
            if record.id == id.lower():
                return record
        raise ToolError("not_found", f"There is no write {id} in this project's history.")

    def read_object(self, name: Hash) -> bytes:
        return self.area.objects.read(name)

    def verify(self) -> Verification:
        """Hash every object again, and look for every old content that the history promises."""
        with _reported():
            sizes = self.area.objects.sizes()
        damaged: list[Hash] = []
        for name in sizes:
            try:
                self.area.objects.read(name)
            except ToolError:
                damaged.append(name)
        history = self.history()
        missing = tuple(r.id for r in history if r.intent.old and r.intent.old not in sizes)
        lines = self.area.journal.damaged
        return Verification(len(sizes), sum(sizes.values()), tuple(damaged), missing, lines)

    def prune(self, limits: Limits | None = None) -> Pruned:
        """Remove what the limits allow to forget; nothing while another session is open."""
        with _reported():
            if not self._owner and self._lock.acquire(locks.EXCLUSIVE) != "held":
                self._lock.acquire(locks.SHARED)  # a failed conversion may have let go of it
                return Pruned()
            try:
                pruned = prune(self.area, limits or self.limits)
                self._used = self.area.usage()
            finally:
                if not self._owner:
                    self._lock.acquire(locks.SHARED)
            return pruned

    def back_up(self, data: bytes) -> Hash:
        """Store a content durably before it is replaced; refused when there is no room left that could be made."""
        room = self._make_room(len(data))
        if self._used + len(data) > room:
            self._used = self.area.usage()  # what was counted twice: contents that were there already
        if self._used + len(data) > room:
            message = "The backup store is full of what must be kept, so nothing was written; see gemcode doctor."
            raise ToolError("quota", message, limit=room)
        name = self.area.objects.put(data)
        self._used += len(data)
        return name

    def _make_room(self, size: int) -> int:
        """Prune, other projects first, so that `size` more bytes fit if possible; how much this project may hold."""
        excess = self._used + self._elsewhere + size - self.limits.total_bytes
        if excess > 0:
            self._elsewhere -= prune_others(self._projects, self.area, excess, self.limits)
        room = min(self.limits.project_bytes, self.limits.total_bytes - self._elsewhere)
        if self._used + size > room:
            self.prune(replace(self.limits, project_bytes=max(room - size, 0)))
        return room

    def require_space(self, size: int, *directories: int) -> None:
        """Three times the size and a reserve, on every file system that a write will use."""
        needed = 3 * size + self.limits.free_bytes
        for fd in (self.area.fd, *directories):
            status = osfs.statvfs(fd)
            free = status.f_bavail * status.f_frsize
            if free < needed:
                raise ToolError(
                    "no_space", "The disk is almost full, so nothing was written.", free=free, needed=needed
                )

    @contextlib.contextmanager
    def write_lock(self, directory: Identity, leaf: str) -> Iterator[None]:
        with self.area.write_lock(directory, leaf) as free:
            if not free:
                raise ToolError("busy", f"Another gemcode is writing {leaf}; try again.")
            yield

    def close(self) -> list[str]:
        """Look a last time at the displaced files, and leave; what the person should know."""
        notices = [*self.notices, *self.displaced.close()]
        self.notices.clear()
        self._opened.close()
        return notices

    def _leave(self) -> None:
        if self._owner:
            with contextlib.suppress(OSError):
                osfs.unlink(self.area.fd, _OWNER)
        self._lock.close()


@contextlib.contextmanager
def _reported() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ToolError("io_error", f"The backup store can't be used: {error.strerror}.", errno=error.errno) from error
