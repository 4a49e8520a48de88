"""What a file has besides its bytes: owner, mode, extended attributes and access lists, carried to its replacement.

Best effort with a sentence for each loss; only a change of owner is refused.
"""

import contextlib
import os

from gemcode.agent.errors import ToolError
from gemcode.workspace import osfs
from gemcode.workspace.root import OpenFile

_ACCESS_LIST = "system.posix_acl_access"


def create_temporary(dir_fd: int, name: str, *, private: bool) -> int:
    """A new, empty file. One that replaces another starts private; a new one gets what the user's umask says."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    return osfs.open(name, flags, 0o600 if private else 0o666, dir_fd=dir_fd)


def copy_attributes(old: OpenFile, fd: int, path: str) -> list[str]:
    """Give `fd` the owner, mode and attributes of `old`; what could not be kept. In this order: chown resets modes."""
    notes = _copy_owner(old, fd, path)
    if old.stat.st_mode & 0o7000:
        notes.append(f"The set-user-id, set-group-id or sticky bit of {path} was not kept.")
    osfs.fchmod(fd, old.stat.st_mode & 0o777)
    try:
        _copy_extended(old.fd, fd)
    except OSError as error:
        notes.append(f"Not every extended attribute of {path} could be kept ({error.strerror}).")
    return notes


def _copy_owner(old: OpenFile, fd: int, path: str) -> list[str]:
    present = osfs.fstat(fd)
    try:
        if present.st_uid != old.stat.st_uid:
            osfs.fchown(fd, old.stat.st_uid, old.stat.st_gid)
        elif present.st_gid != old.stat.st_gid:
            osfs.fchown(fd, -1, old.stat.st_gid)
    except OSError as error:
        if present.st_uid != old.stat.st_uid:
            raise ToolError(
                "permission", f"{path} belongs to another user, and a write would make it yours; nothing was written."
            ) from error
        return [f"The group of {path} could not be kept."]
    return []


def _copy_extended(old_fd: int, fd: int) -> None:
    wanted = {name for name in _names(old_fd) if name.startswith("user.") or name == _ACCESS_LIST}
    if _ACCESS_LIST in set(_names(fd)) - wanted:
        osfs.removexattr(fd, _ACCESS_LIST)  # inherited from the directory; the old file did not have it
    failure: OSError | None = None
    for name in sorted(wanted):
        try:
            osfs.setxattr(fd, name, osfs.getxattr(old_fd, name))
        except OSError as error:
            failure = error
    if failure is not None:
        raise failure


def _names(fd: int) -> list[str]:
    with contextlib.suppress(OSError):
        return osfs.listxattr(fd)
    return []
