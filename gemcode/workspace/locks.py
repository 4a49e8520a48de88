"""Advisory locks among gemcode processes, and whether a process that left something behind is still alive.

They order gemcodes only; against every other program the compare-and-swap of writer.py is what holds.
"""

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from typing import Literal

from gemcode.workspace import osfs

SHARED = fcntl.LOCK_SH
EXCLUSIVE = fcntl.LOCK_EX
PATIENCE = 10.0  # seconds; a write takes milliseconds, so this only ends for a stopped process

Outcome = Literal["held", "busy", "unsupported"]
_UNSUPPORTED = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS, errno.EINVAL)
_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)


class LockFile:
    """One lock, as long as the object is open."""

    def __init__(self, dir_fd: int, name: str) -> None:
        self.fd = osfs.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=dir_fd)

    def acquire(self, operation: int, patience: float = 0.0) -> Outcome:
        """Take or convert the lock, waiting at most `patience` seconds; never for ever."""
        deadline = time.monotonic() + patience
        while True:
            try:
                osfs.flock(self.fd, operation | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in _UNSUPPORTED:
                    return "unsupported"
                if error.errno not in _BUSY:
                    raise
            else:
                return "held"
            if time.monotonic() >= deadline:
                return "busy"
            time.sleep(0.005)

    def close(self) -> None:
        close_quietly(self.fd)


@contextlib.contextmanager
def holding(dir_fd: int, name: str, patience: float | None = None) -> Iterator[bool]:
    """An exclusive lock for a block; False when another process has it. Without locks on this file system the
    session was told that it must be the only one (see store.py), so the block may go on.
    """
    lock = LockFile(dir_fd, name)
    try:
        yield lock.acquire(EXCLUSIVE, PATIENCE if patience is None else patience) != "busy"
    finally:
        lock.close()


def close_quietly(fd: int) -> None:
    """Close; an error here could only hide what the caller has to say."""
    with contextlib.suppress(OSError):
        osfs.close(fd)


def this_process() -> str:
    """A name for this process that no other one will have: pid, start time, boot."""
    return f"{os.getpid()}:{_start_of('self')}:{_boot()}"


def is_alive(process: str) -> bool:
    """Whether the named process may still run; when that can't be found out, yes."""
    pid, _, rest = process.partition(":")
    start, _, boot = rest.partition(":")
    if not pid.isdigit() or (boot and _boot() and boot != _boot()):
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    now = _start_of(pid)
    return not (start and now) or start == now


def _start_of(pid: str) -> str:
    """The start time in clock ticks since boot, field 22; the name in field 2 may hold spaces and parentheses."""
    fields = _read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if len(fields) < 20:
        return ""
    return "ended" if fields[0] in "ZX" else fields[19]


def _boot() -> str:
    return _read_text("/proc/sys/kernel/random/boot_id").strip()


def _read_text(path: str) -> str:
    try:
        fd = osfs.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return osfs.read_all(fd, 4096).decode("ascii", "replace")
    except OSError:
        return ""
    finally:
        close_quietly(fd)
