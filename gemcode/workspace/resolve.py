"""Resolve and open in one step, beneath a directory fd: by the kernel (openat2), or component by component.

Both raise OSError with the same code for the same tree: ELOOP for a link where none may be or too many of them,
EXDEV for a way out. Nothing here looks at a path string and opens it later.
"""

import errno
import os
import stat
from collections.abc import Callable

from gemcode.workspace import osfs

Opened = tuple[int, str]  # the fd, and the path of names that were really gone through (no links in it)
Resolver = Callable[[int, str, int, bool], Opened]  # (root fd, path, flags, follow links)

MAX_LINKS = 40  # as in Linux
_MAX_SWAPS = 64  # how often a name may turn from link to file and back under us before we give up
_NO_LINKS = osfs.RESOLVE_BENEATH | osfs.RESOLVE_NO_MAGICLINKS | osfs.RESOLVE_NO_SYMLINKS
_LINK_ERRORS = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)  # what O_NOFOLLOW says of a link, by platform and flags
_STEP_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW


def open_by_kernel(root_fd: int, path: str, flags: int, follow: bool) -> Opened:
    """One system call for a path without links. A path with links is walked, because its class must be judged
    by the names it really leads through (`notes -> .git/config`), which the kernel does not tell.
    """
    try:
        return osfs.openat2(root_fd, path, flags, _NO_LINKS), path
    except OSError as error:
        if error.errno != errno.ELOOP or not follow:
            raise
    return open_by_walk(root_fd, path, flags, follow)


def open_by_walk(root_fd: int, path: str, flags: int, follow: bool) -> Opened:
    """Open each component from the fd of the one before with O_NOFOLLOW; links to be followed are expanded here."""
    walk = _Walk(root_fd, path, follow)
    try:
        while walk.pending:
            name = walk.pending.pop()
            last = not walk.pending
            if name == "..":
                walk.leave()
            elif name != ".":
                opened = walk.enter(name, flags | os.O_NOFOLLOW if last else _STEP_FLAGS)
                if last and opened is not None:
                    return opened, "/".join([*walk.names, name])
                if opened is not None:
                    walk.push(opened, name)
        # The path ended in a directory that is already open, as "." or a link to ".." does.
        return osfs.open(".", flags, dir_fd=walk.here), "/".join(walk.names) or "."
    finally:
        walk.close()


class _Walk:
    """Where the walk is: the open directories down from the root, their names, and the components still to go."""

    def __init__(self, root_fd: int, path: str, follow: bool) -> None:
        self.root_fd = root_fd
        self.follow = follow
        self.pending = path.split("/")[::-1]
        self.names: list[str] = []
        self.fds: list[int] = []
        self.links = 0

    @property
    def here(self) -> int:
        return self.fds[-1] if self.fds else self.root_fd

    def push(self, fd: int, name: str) -> None:
        self.fds.append(fd)
        self.names.append(name)

    def leave(self) -> None:
        """Go back to the directory we came from: one that was beneath the root when it was opened."""
        if not self.fds:
            raise _os_error(errno.EXDEV)
        self.names.pop()
        osfs.release(self.fds.pop())

    def enter(self, name: str, flags: int) -> int | None:
        """The fd of `name`, or None when it was a link whose target is now pending."""
        for _ in range(_MAX_SWAPS):
            try:
                return osfs.open(name, flags, dir_fd=self.here)
            except OSError as error:
                if error.errno not in _LINK_ERRORS:
                    raise
                try:
                    target = osfs.readlink(self.here, name)
                except OSError as no_link:
                    if no_link.errno == errno.EINVAL and self.is_openable(name, error):
                        continue  # it was a link a moment ago
                    raise error from None
            self.expand(target)
            return None
        raise _os_error(errno.ELOOP)

    def is_openable(self, name: str, error: OSError) -> bool:
        """Whether a name that is no link now deserves another try: unless it is a file where a directory must be."""
        return error.errno != errno.ENOTDIR or stat.S_ISDIR(osfs.fstatat(self.here, name).st_mode)

    def expand(self, target: str) -> None:
        self.links += 1
        if not self.follow or self.links > MAX_LINKS:
            raise _os_error(errno.ELOOP)
        if target.startswith("/"):
            raise _os_error(errno.EXDEV)
        parts = [part or "." for part in target.split("/")]  # "file/" must be a directory, so keep its end as "."
        self.pending.extend(reversed(parts))

    def close(self) -> None:
        for fd in self.fds:
            osfs.release(fd)


def _os_error(code: int) -> OSError:
    return OSError(code, os.strerror(code))
