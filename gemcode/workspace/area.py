"""One project's directory in the store, open: its objects, its journal, and the place for files displaced by writes.

Here too lives the way to it: the state directory is used only if it is ours alone. Nothing here touches the project.
"""

import contextlib
import json
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from gemcode.agent.errors import UsageError
from gemcode.workspace import locks, osfs
from gemcode.workspace.journal import Identity, Journal
from gemcode.workspace.objects import DIRECTORY, Hash, Objects, ensure_directory, hash_of, put_file
from gemcode.workspace.root import Root

LATE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_ABOUT = "project.json"


class Area:
    """Where one project's backups are."""

    def __init__(self, fd: int, locks_fd: int, session: str, file_bytes: int) -> None:
        self.fd = fd
        self.locks = locks_fd
        self.session = session
        self.file_bytes = file_bytes
        with contextlib.ExitStack() as opened:
            opened.callback(locks.close_quietly, fd)
            self.objects = Objects(fd)
            opened.callback(self.objects.close)
            self.late = ensure_directory(fd, "late")
            opened.callback(locks.close_quietly, self.late)
            self.journal = Journal(fd, session, locks.this_process())
            opened.callback(self.journal.close)
            self._opened = opened.pop_all()  # all of it or, after an error, none

    def usage(self) -> int:
        """Bytes held: objects, and displaced files."""
        total = sum(self.objects.sizes().values())
        for name in osfs.listdir(self.late):
            with contextlib.suppress(FileNotFoundError):
                total += osfs.fstatat(self.late, name).st_size
        return total

    def keep(self, path: str, data: bytes, reason: str, turn: str = "") -> str:
        """Put a version aside, durably; the id that `restore` takes."""
        return self.journal.keep(path, self.objects.put(data), reason, turn)

    @contextlib.contextmanager
    def write_lock(self, directory: Identity, leaf: str, patience: float | None = None) -> Iterator[bool]:
        """One writer at a time for a file, among all gemcodes; names share a fixed number of lock files."""
        key = hash_of(os.fsencode(f"{directory[0]}:{directory[1]}/{leaf}"))[:2]
        with locks.holding(self.locks, key, patience) as free:
            yield free

    def close(self) -> None:
        self._opened.close()


def hash_file(fd: int, limit: int) -> tuple[Hash | None, bytes]:
    """The hash and bytes of an open regular file; no hash for anything else, or for one that is too large."""
    status = osfs.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
        return None, b""
    data = osfs.read_all(fd, limit + 1)
    return (hash_of(data), data) if len(data) <= limit else (None, b"")


def open_state_directory(path: Path) -> int:
    """The state directory's fd, made 0700 if missing; refused when others could write to it or lead us away from it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    if path.is_symlink():
        raise UsageError(f"The state directory {path} is a symbolic link.", "Name the directory itself.")
    fd = osfs.open(str(path), DIRECTORY)
    try:
        status = osfs.fstat(fd)
        if status.st_uid != os.geteuid():
            raise UsageError(
                f"The state directory {path} belongs to another user.", "Set GEMCODE_HOME to one of yours."
            )
        if status.st_mode & 0o022:
            raise UsageError(f"Other users can write to the state directory {path}.", f"Run: chmod 700 {path}")
    except BaseException:
        locks.close_quietly(fd)
        raise
    return fd


def open_project(projects: int, root: Root) -> tuple[str, int]:
    """The directory of this project's backups: found by path or, once moved, by device, inode and time of birth; else
    a new one. The birth matters, as a new directory often gets the inode of one that was just deleted.
    """
    device, inode = root.identity
    born = osfs.birth_time(root.fd)
    about = {"path": root.display, "device": device, "inode": inode, "born": born}
    known = {name: _read_about(projects, name) for name in sorted(osfs.listdir(projects))}
    same_path = [name for name, found in known.items() if found.get("path") == root.display]
    moved = [
        n
        for n, f in known.items()
        if born and (f.get("device"), f.get("inode"), f.get("born")) == (*root.identity, born)
    ]
    name = next((n for n in same_path if n in moved), None) or next(iter(same_path + moved), None)
    chosen = name or secrets.token_hex(8)
    fd = ensure_directory(projects, chosen)
    try:
        if known.get(chosen) != about:
            put_file(fd, _ABOUT, json.dumps(about).encode("ascii"), 0o600)
    except BaseException:
        locks.close_quietly(fd)
        raise
    return chosen, fd


def _read_about(projects: int, name: str) -> dict[str, object]:
    """What a project's directory says of itself; nothing if it never came to be. Any other error must not pass for
    "unknown project", which would start a second, empty history.
    """
    try:
        fd = osfs.open(f"{name}/{_ABOUT}", os.O_RDONLY | os.O_NOFOLLOW, dir_fd=projects)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    try:
        found = json.loads(osfs.read_all(fd, 65_536))
    except ValueError:
        return {}
    finally:
        locks.close_quietly(fd)
    return found if isinstance(found, dict) else {}
