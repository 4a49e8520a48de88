"""Every file system call of the workspace, one thin function each, so that tests can fail or kill at call N.

It holds no policy and checks no path: `root` does. It must not be called with a path from the model but through a Root.
"""

import contextlib
import ctypes
import errno
import fcntl
import functools
import os
import secrets
import sys
from collections.abc import Callable, Iterator
from typing import Any

Hook = Callable[[str], None]

RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08

_OPENAT2 = 437  # the same number on every architecture, like every call added since Linux 5.0
_RENAMEAT2 = {"x86_64": 316, "aarch64": 276}  # for a C library without renameat2 (musl)
_NOREPLACE, _EXCHANGE = (0x4, 0x2) if sys.platform == "darwin" else (0x1, 0x2)
_OPENAT2_TRIES = 64
_EMPTY_PATH, _BIRTH = 0x1000, 0x800  # of statx
_CHUNK = 1 << 20

_hook: Hook | None = None


@contextlib.contextmanager
def inject(hook: Hook) -> Iterator[None]:
    """For tests only: call `hook` with the operation's name before every call; it may raise or kill."""
    global _hook
    previous, _hook = _hook, hook
    try:
        yield
    finally:
        _hook = previous


def _before(operation: str) -> None:
    if _hook is not None:
        _hook(operation)


# --- opening and closing ---


def open(path: str, flags: int, mode: int = 0o600, *, dir_fd: int | None = None) -> int:
    _before("open")
    return os.open(path, flags | os.O_CLOEXEC, mode, dir_fd=dir_fd)


def openat2(dir_fd: int, path: str, flags: int, resolve: int) -> int:
    """Open with the kernel's own path restrictions; ENOSYS where the kernel has none."""
    _before("openat2")
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    how = (ctypes.c_uint64 * 3)(flags | os.O_CLOEXEC, 0, resolve)
    encoded = _encode(path)
    for _ in range(_OPENAT2_TRIES):
        fd: int = _syscall()(_OPENAT2, dir_fd, encoded, ctypes.addressof(how), ctypes.sizeof(how))
        if fd >= 0:
            return fd
        code = ctypes.get_errno()
        if code not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(code, os.strerror(code), path)


def close(fd: int) -> None:
    try:
        _before("close")
    finally:
        os.close(fd)  # as in Linux, where the fd is gone even when close reports an error


def release(fd: int) -> None:
    """Close an fd that nothing was written through: whatever close reports, no data depends on it."""
    with contextlib.suppress(OSError):
        close(fd)


# --- bytes ---


def read_all(fd: int, limit: int, offset: int = 0) -> bytes:
    """The file's bytes from `offset`, at most `limit`, whatever its stat said."""
    pieces = []
    rest = limit
    while rest > 0:
        _before("read")
        piece = os.pread(fd, min(rest, _CHUNK), offset)
        if not piece:
            break
        pieces.append(piece)
        offset += len(piece)
        rest -= len(piece)
    return b"".join(pieces)


def write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        _before("write")
        rest = rest[os.write(fd, rest) :]


def ftruncate(fd: int, length: int) -> None:
    _before("ftruncate")
    os.ftruncate(fd, length)


def fsync(fd: int) -> None:
    """Down to the medium: macOS needs F_FULLFSYNC for what fsync means elsewhere."""
    _before("fsync")
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is None:
        os.fsync(fd)
    else:
        fcntl.fcntl(fd, full)


# --- status ---


def fstat(fd: int) -> os.stat_result:
    _before("fstat")
    return os.fstat(fd)


def fstatat(dir_fd: int, name: str) -> os.stat_result:
    """The entry itself, never what a link points to."""
    _before("fstatat")
    return os.stat(name, dir_fd=dir_fd, follow_symlinks=False)


def stat(path: str) -> os.stat_result:
    _before("stat")
    return os.stat(path)


def statvfs(fd: int) -> os.statvfs_result:
    _before("statvfs")
    return os.fstatvfs(fd)


def file_system_type(fd: int) -> int:
    """The magic number of the file system that holds `fd`; 0 where there is no such number."""
    _before("fstatfs")
    if sys.platform != "linux":
        return 0
    buffer = (ctypes.c_long * 32)()  # struct statfs is 120 bytes and begins with f_type
    if _libc().fstatfs(fd, buffer) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return buffer[0] & 0xFFFFFFFF


def birth_time(fd: int) -> int:
    """When the file was made, in nanoseconds, which no rename changes; 0 where the file system does not say."""
    _before("statx")
    if sys.platform != "linux":
        return int(getattr(os.fstat(fd), "st_birthtime", 0) * 1e9)
    buffer = (ctypes.c_uint64 * 32)()  # struct statx: the mask first, seconds and nanoseconds of the birth from byte 80
    call = getattr(_libc(), "statx", None)
    if call is None or call(fd, b"", _EMPTY_PATH, _BIRTH, buffer) != 0 or not buffer[0] & _BIRTH:
        return 0
    return int(buffer[10]) * 1_000_000_000 + (int(buffer[11]) & 0xFFFFFFFF)


def readlink(dir_fd: int, name: str) -> str:
    _before("readlink")
    return os.readlink(name, dir_fd=dir_fd)


# --- names ---


def rename(source_fd: int, source: str, target_fd: int, target: str) -> None:
    _before("rename")
    os.rename(source, target, src_dir_fd=source_fd, dst_dir_fd=target_fd)


def exchange(source_fd: int, source: str, target_fd: int, target: str) -> None:
    """Swap two names in one step; EINVAL or ENOSYS where the file system can't."""
    _before("exchange")
    _rename_with(_EXCHANGE, source_fd, source, target_fd, target)


def rename_noreplace(source_fd: int, source: str, target_fd: int, target: str) -> None:
    """Rename unless the target exists (EEXIST); EINVAL or ENOSYS where the file system can't."""
    _before("rename_noreplace")
    _rename_with(_NOREPLACE, source_fd, source, target_fd, target)


def link(source_fd: int, source: str, target_fd: int, target: str) -> None:
    _before("link")
    os.link(source, target, src_dir_fd=source_fd, dst_dir_fd=target_fd, follow_symlinks=False)


def unlink(dir_fd: int, name: str) -> None:
    _before("unlink")
    os.unlink(name, dir_fd=dir_fd)


def mkdir(dir_fd: int, name: str, mode: int = 0o777) -> None:
    _before("mkdir")
    os.mkdir(name, mode, dir_fd=dir_fd)


def rmdir(dir_fd: int, name: str) -> None:
    _before("rmdir")
    os.rmdir(name, dir_fd=dir_fd)


def listdir(fd: int) -> list[str]:
    _before("listdir")
    return os.listdir(fd)


def scandir(fd: int) -> "contextlib.AbstractContextManager[Iterator[os.DirEntry[str]]]":
    _before("scandir")
    return os.scandir(fd)


def random_name(prefix: str) -> str:
    _before("random_name")
    return prefix + secrets.token_hex(8)


# --- attributes and locks ---


def fchmod(fd: int, mode: int) -> None:
    _before("fchmod")
    os.fchmod(fd, mode)


def fchown(fd: int, uid: int, gid: int) -> None:
    _before("fchown")
    os.fchown(fd, uid, gid)


def listxattr(fd: int) -> list[str]:
    """The names of the extended attributes; none where the platform's Python has no call for them."""
    _before("listxattr")
    return os.listxattr(fd) if sys.platform == "linux" else []


def getxattr(fd: int, name: str) -> bytes:
    _before("getxattr")
    if sys.platform != "linux":
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
    return os.getxattr(fd, name)


def setxattr(fd: int, name: str, value: bytes) -> None:
    _before("setxattr")
    if sys.platform != "linux":
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
    os.setxattr(fd, name, value)


def removexattr(fd: int, name: str) -> None:
    _before("removexattr")
    if sys.platform != "linux":
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
    os.removexattr(fd, name)


def flock(fd: int, operation: int) -> None:
    _before("flock")
    fcntl.flock(fd, operation)


# --- the C library ---


def _encode(path: str) -> bytes:
    encoded = os.fsencode(path)
    if b"\0" in encoded:  # C would silently cut the name there
        raise ValueError("a path holds a NUL")
    return encoded


@functools.cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


@functools.cache
def _syscall() -> Any:
    call = _libc().syscall
    call.restype = ctypes.c_long
    call.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
    return call


@functools.cache
def _rename_call() -> Callable[[int, bytes, int, bytes, int], int]:
    """The C library's own call where it has one, else the bare system call, else one that says ENOSYS."""
    libc = _libc()
    name = "renameatx_np" if sys.platform == "darwin" else "renameat2"
    arguments = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    call: Any = getattr(libc, name, None)
    if call is not None:
        call.argtypes = arguments
        return call  # type: ignore[no-any-return]  # ctypes functions carry no type
    import platform  # hardly ever needed

    number = _RENAMEAT2.get(platform.machine())
    if sys.platform != "linux" or number is None:
        return _no_rename_call
    prototype = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long, *arguments, use_errno=True)
    return functools.partial(prototype(("syscall", libc)), number)


def _no_rename_call(source_fd: int, source: bytes, target_fd: int, target: bytes, flags: int) -> int:
    ctypes.set_errno(errno.ENOSYS)
    return -1


def _rename_with(flags: int, source_fd: int, source: str, target_fd: int, target: str) -> None:
    call = _rename_call()
    while call(source_fd, _encode(source), target_fd, _encode(target), flags) != 0:
        code = ctypes.get_errno()
        if code != errno.EINTR:
            raise OSError(code, os.strerror(code), source, None, target)
