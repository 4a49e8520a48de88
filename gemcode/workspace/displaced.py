"""Files that a write took out of the project, watched for a while: an editor that still has one open may save late.

A displaced file is removed only when its content is known to be in the store, or to be our own.
"""

import contextlib
from collections.abc import Collection
from dataclasses import dataclass

from gemcode.agent.errors import ToolError
from gemcode.workspace import locks, osfs
from gemcode.workspace.area import LATE_FLAGS, Area, hash_file
from gemcode.workspace.objects import Hash

WATCHED = 256
WATCHED_OPEN = 64  # of those, held only by an open fd


@dataclass(slots=True)
class _Watched:
    id: str
    path: str
    content: Hash
    name: str  # in late/, or "" where the file has no name any more
    fd: int  # open where the store is on another device, else -1
    stamp: tuple[int, int, int] | None = None  # size and times when it was last read


class Displaced:
    """The displaced files of this session. Checked at the next action and at the end."""

    def __init__(self, area: Area) -> None:
        self._area = area
        self._watched: list[_Watched] = []

    def retain(self, dir_fd: int, name: str, id: str, path: str, content: Hash) -> None:
        """Take the file at `name` out of the project without losing it; `content` is what the store already has of it.

        Raises OSError and leaves the name in place where neither a rename nor an open file can hold it.
        """
        late = osfs.random_name(f"{id}-")
        try:
            osfs.rename(dir_fd, name, self._area.late, late)
        except OSError:
            fd = osfs.open(name, LATE_FLAGS, dir_fd=dir_fd)  # the store is on another device
            try:
                osfs.unlink(dir_fd, name)
            except OSError:
                locks.close_quietly(fd)
                raise
            self._watched.append(_Watched(id, path, content, "", fd))
        else:
            self._watched.append(_Watched(id, path, content, late, -1))

    def recheck(self) -> list[str]:
        """Look at every watched file again; late saves are kept, and said. The oldest leave when there are too many."""
        notices = [
            notice
            for watched in self._watched
            if not self._looks_unchanged(watched) and (notice := self._look(watched)[1])
        ]
        held = [watched for watched in self._watched if watched.fd >= 0]
        for watched in [*self._watched[:-WATCHED], *held[:-WATCHED_OPEN]]:
            if watched in self._watched:
                self._watched.remove(watched)
                notices += self._release(watched)
        return notices

    def close(self) -> list[str]:
        """A last look, then let go of all of them."""
        notices: list[str] = []
        while self._watched:
            notices += self._release(self._watched.pop())
        return notices

    def _looks_unchanged(self, watched: _Watched) -> bool:
        """Whether there is no sign of a save since it was last read. The last look of all reads it in any case."""
        try:
            return watched.stamp is not None and watched.stamp == self._stamp(watched)
        except OSError:
            return False

    def _stamp(self, watched: _Watched) -> tuple[int, int, int]:
        named = watched.fd < 0
        status = osfs.fstatat(self._area.late, watched.name) if named else osfs.fstat(watched.fd)
        return status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def _look(self, watched: _Watched) -> tuple[bool, str]:
        """Whether the content is safe, and what to say."""
        try:
            watched.stamp = self._stamp(watched)
            fd = watched.fd if watched.fd >= 0 else osfs.open(watched.name, LATE_FLAGS, dir_fd=self._area.late)
            try:
                found, notice = preserve(self._area, fd, watched.path, (watched.content,))
            finally:
                if watched.fd < 0:
                    locks.close_quietly(fd)
        except (OSError, ToolError) as error:
            return False, f"A file displaced from {watched.path} could not be checked: {error}"
        watched.content = found or watched.content
        return found is not None, notice

    def _release(self, watched: _Watched) -> list[str]:
        safe, notice = self._look(watched)
        if watched.fd >= 0:
            locks.close_quietly(watched.fd)
        elif safe:
            with contextlib.suppress(OSError):  # what stays is looked at again by the next start
                osfs.unlink(self._area.late, watched.name)
        return [notice] if notice else []


def preserve(area: Area, fd: int, path: str, known: Collection[Hash]) -> tuple[Hash | None, str]:
    """See to it that the content of a displaced file is in the store: its hash, or None if it can't be; what to say."""
    found, data = hash_file(fd, area.file_bytes)
    if found is None:
        return None, f"What was displaced from {path} can't be copied; it stays in the store's late directory."
    if found in known:
        return found, ""
    id = area.keep(path, data, "saved by another program while gemcode replaced the file")
    return found, f"Another program saved {path} while gemcode replaced it; that version is kept: gemcode restore {id}"
