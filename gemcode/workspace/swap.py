"""Put a finished temporary file in the place of another, by name, in one directory, and back again.

It moves names and nothing else: no name is removed here that could hold a user's bytes.
"""

import contextlib
import errno
import os
import stat
from dataclasses import dataclass

from gemcode.frozen import frozen
from gemcode.workspace import osfs
from gemcode.workspace.area import LATE_FLAGS, hash_file
from gemcode.workspace.journal import Identity
from gemcode.workspace.locks import close_quietly
from gemcode.workspace.objects import Hash

ASIDE = "~"  # added to a temporary name: the second name of the old file where names can't be exchanged
_ROUNDS = 16  # how often an editor may save again while we give its file back
_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
_NO_LINKS = (*_UNSUPPORTED, errno.EPERM, errno.EMLINK, errno.EXDEV)


@frozen
class Seen:
    """Who sits at a name, and the content if it is a regular file of a bearable size with no other name."""

    identity: Identity
    content: Hash | None


@dataclass(slots=True)
class Swap:
    """One replacement in one directory. `held` is the name under which the displaced file is; "" if there is none."""

    fd: int
    leaf: str
    temporary: str
    limit: int
    ours: Identity = (0, 0)
    new: Hash | None = None
    held: str = ""
    weaker: bool = False

    def look(self, name: str) -> Seen | None:
        """What is at a name now; None for nothing."""
        try:
            status = osfs.fstatat(self.fd, name)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
                return Seen((status.st_dev, status.st_ino), None)
            fd = osfs.open(name, LATE_FLAGS, dir_fd=self.fd)
        except FileNotFoundError:
            return None
        try:
            status = osfs.fstat(fd)
            return Seen((status.st_dev, status.st_ino), hash_file(fd, self.limit)[0])
        finally:
            close_quietly(fd)

    def pristine(self, seen: Seen) -> bool:
        """Whether this is our own file, and nobody wrote to it while it was visible."""
        return seen == Seen(self.ours, self.new)

    def create(self) -> None:
        """Give the temporary file its name unless that is taken (FileExistsError)."""
        self.weaker = not move(self.fd, self.temporary, self.leaf)

    def exchange(self, old: Identity) -> None:
        """Put the temporary file in the place of `leaf`, and keep that one under the name `held`."""
        try:
            osfs.exchange(self.fd, self.temporary, self.fd, self.leaf)
            self.held = self.temporary
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            self._replace(old)

    def take_out(self) -> None:
        """Move `leaf` to the temporary name."""
        osfs.rename(self.fd, self.leaf, self.fd, self.temporary)
        self.held = self.temporary

    def give_back(self) -> None:
        """Undo. If another program saved at the path meanwhile, the newest save stays or ends up at the path.

        What is left at the temporary names afterwards is for the caller to look at.
        """
        if self.held == self.temporary and self.new is not None:
            self._exchange_back()
            return
        if self.held != self.temporary:
            with contextlib.suppress(FileNotFoundError):
                osfs.rename(self.fd, self.leaf, self.fd, self.temporary)
        with contextlib.suppress(FileExistsError):
            move(self.fd, self.held, self.leaf)

    def _exchange_back(self) -> None:
        displaced = self.look(self.held)
        placing = displaced.identity if displaced else None
        placed: Identity | None = None
        for _ in range(_ROUNDS):
            try:
                osfs.exchange(self.fd, self.held, self.fd, self.leaf)
            except FileNotFoundError:  # an editor removed the file: the path is free
                with contextlib.suppress(FileExistsError):
                    move(self.fd, self.held, self.leaf)
                    return
                continue
            seen = self.look(self.held)
            if seen is None or self.pristine(seen) or seen.identity == placed:
                return
            placed, placing = placing, seen.identity  # a newer save than the one we put back: it belongs at the path

    def _replace(self, old: Identity) -> None:
        """Without exchange: a second name for the old file, a last look, a rename over the first one."""
        self.weaker = True
        aside = self.temporary + ASIDE
        try:
            osfs.link(self.fd, self.leaf, self.fd, aside)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
        else:
            self.held = aside
        status = osfs.fstatat(self.fd, self.held or self.leaf)
        if (status.st_dev, status.st_ino) != old:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        osfs.rename(self.fd, self.temporary, self.fd, self.leaf)


def identity_at(fd: int, name: str) -> Identity | None:
    """Who sits at a name; None for nobody."""
    try:
        status = osfs.fstatat(fd, name)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def move(fd: int, source: str, target: str) -> bool:
    """Rename unless the target exists (FileExistsError); False where that could not be ensured."""
    try:
        osfs.rename_noreplace(fd, source, fd, target)
        return True
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    try:
        osfs.link(fd, source, fd, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
    else:
        osfs.unlink(fd, source)
        return True
    with contextlib.suppress(FileNotFoundError):
        osfs.fstatat(fd, target)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    osfs.rename(fd, source, fd, target)
    return False
