"""Content-addressed, durable, private copies of file contents: objects/<2>/<sha256>, each 0400.

It knows nothing of paths or of writes; an object is in place completely or not at all, and is re-hashed before use.
"""

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator

from gemcode.agent.errors import ToolError
from gemcode.workspace import osfs
from gemcode.workspace.locks import close_quietly

Hash = str
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
OBJECT_NAME = re.compile(r"[0-9a-f]{64}")
_SHARD = re.compile(r"[0-9a-f]{2}")


def hash_of(data: bytes) -> Hash:
    return hashlib.sha256(data).hexdigest()


def ensure_directory(dir_fd: int, name: str) -> int:
    """An fd of a private directory beneath `dir_fd`, made durably if it is not there."""
    try:
        osfs.mkdir(dir_fd, name, 0o700)
        osfs.fsync(dir_fd)
    except FileExistsError:
        pass
    return osfs.open(name, DIRECTORY, dir_fd=dir_fd)


def put_file(dir_fd: int, name: str, data: bytes, mode: int) -> None:
    """A complete, durable file under `name`, replacing one that was there."""
    temporary = osfs.random_name("tmp-")
    fd = osfs.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=dir_fd)
    try:
        try:
            osfs.write_all(fd, data)
            osfs.fsync(fd)
        finally:
            close_quietly(fd)
        osfs.rename(dir_fd, temporary, dir_fd, name)
    except BaseException:
        with contextlib.suppress(OSError):
            osfs.unlink(dir_fd, temporary)
        raise
    osfs.fsync(dir_fd)


class Objects:
    """The objects of one project."""

    def __init__(self, project_fd: int) -> None:
        self.fd = ensure_directory(project_fd, "objects")

    def put(self, data: bytes) -> Hash:
        """Store and make durable; a copy that is there already is checked, and replaced if it was damaged."""
        name = hash_of(data)
        shard = ensure_directory(self.fd, name[:2])
        try:
            if self._read(shard, name, len(data)) == data:
                osfs.fsync(shard)  # another process may have put it there a moment ago
            else:
                put_file(shard, name, data, 0o400)
            osfs.fsync(self.fd)
        finally:
            close_quietly(shard)
        return name

    def read(self, name: Hash) -> bytes:
        """The content, proved to be the one asked for."""
        try:
            shard = osfs.open(name[:2], DIRECTORY, dir_fd=self.fd)
            try:
                data = self._read(shard, name, 1 << 40)
            finally:
                close_quietly(shard)
        except OSError as error:
            raise ToolError("io_error", f"The backup {name[:12]} can't be read: {error.strerror}.") from error
        if data is None:
            raise ToolError("io_error", f"The backup {name[:12]} is missing.", hash=name)
        if hash_of(data) != name:
            raise ToolError("io_error", f"The backup {name[:12]} is damaged and was not used.", hash=name)
        return data

    def sizes(self) -> dict[Hash, int]:
        """Every object and its size."""
        found: dict[Hash, int] = {}
        for shard, entry in self._entries():
            if OBJECT_NAME.fullmatch(entry):
                with contextlib.suppress(FileNotFoundError):
                    found[entry] = osfs.fstatat(shard, entry).st_size
        return found

    def keep_only(self, wanted: set[Hash]) -> int:
        """Delete all objects but these, and what a killed process left half written; the count of deleted objects."""
        deleted = 0
        for shard, entry in self._entries():
            if entry not in wanted:
                osfs.unlink(shard, entry)
                deleted += bool(OBJECT_NAME.fullmatch(entry))
        return deleted

    def close(self) -> None:
        close_quietly(self.fd)

    def _entries(self) -> Iterator[tuple[int, str]]:
        for name in sorted(filter(_SHARD.fullmatch, osfs.listdir(self.fd))):
            shard = osfs.open(name, DIRECTORY, dir_fd=self.fd)
            try:
                for entry in osfs.listdir(shard):
                    yield shard, entry
            finally:
                close_quietly(shard)

    @staticmethod
    def _read(shard: int, name: Hash, limit: int) -> bytes | None:
        try:
            fd = osfs.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=shard)
        except FileNotFoundError:
            return None
        try:
            return osfs.read_all(fd, limit + 1)
        finally:
            close_quietly(fd)
