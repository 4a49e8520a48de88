"""The thin layer over the system calls: what it adds to them, and the hook that lets tests fail any of them."""

import ctypes
import errno
import fcntl
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gemcode.workspace import osfs


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[int]:
    fd = osfs.open(str(tmp_path), os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def make(directory: int, name: str, data: bytes = b"") -> int:
    fd = osfs.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, dir_fd=directory)
    osfs.write_all(fd, data)
    return fd


def test_every_function_calls_the_hook_first(directory: int) -> None:
    """The fault loop can only reach a call that goes through the hook."""
    fd = make(directory, "a", b"data")
    os.symlink("a", "link", dir_fd=directory)
    calls = {
        "open": lambda: osfs.open("a", os.O_RDONLY, dir_fd=directory),
        "openat2": lambda: osfs.openat2(directory, "a", os.O_RDONLY, osfs.RESOLVE_BENEATH),
        "close": lambda: osfs.close(fd),
        "read": lambda: osfs.read_all(fd, 9),
        "write": lambda: osfs.write_all(fd, b"x"),
        "ftruncate": lambda: osfs.ftruncate(fd, 1),
        "fsync": lambda: osfs.fsync(fd),
        "fstat": lambda: osfs.fstat(fd),
        "fstatat": lambda: osfs.fstatat(directory, "a"),
        "stat": lambda: osfs.stat("/"),
        "statvfs": lambda: osfs.statvfs(fd),
        "fstatfs": lambda: osfs.file_system_type(fd),
        "statx": lambda: osfs.birth_time(fd),
        "readlink": lambda: osfs.readlink(directory, "link"),
        "rename": lambda: osfs.rename(directory, "a", directory, "b"),
        "exchange": lambda: osfs.exchange(directory, "a", directory, "link"),
        "rename_noreplace": lambda: osfs.rename_noreplace(directory, "a", directory, "b"),
        "link": lambda: osfs.link(directory, "a", directory, "b"),
        "unlink": lambda: osfs.unlink(directory, "a"),
        "mkdir": lambda: osfs.mkdir(directory, "d"),
        "rmdir": lambda: osfs.rmdir(directory, "d"),
        "listdir": lambda: osfs.listdir(directory),
        "scandir": lambda: osfs.scandir(directory),
        "random_name": lambda: osfs.random_name("x"),
        "fchmod": lambda: osfs.fchmod(fd, 0o600),
        "fchown": lambda: osfs.fchown(fd, -1, -1),
        "listxattr": lambda: osfs.listxattr(fd),
        "getxattr": lambda: osfs.getxattr(fd, "user.x"),
        "setxattr": lambda: osfs.setxattr(fd, "user.x", b""),
        "removexattr": lambda: osfs.removexattr(fd, "user.x"),
        "flock": lambda: osfs.flock(fd, fcntl.LOCK_UN),
    }
    public = {
        name
        for name, value in vars(osfs).items()
        if callable(value) and getattr(value, "__module__", "") == osfs.__name__
    }
    functions = {name for name in public if not name.startswith("_")} - {"inject", "release"}
    renamed = {"read_all": "read", "write_all": "write", "file_system_type": "fstatfs", "birth_time": "statx"}
    assert {renamed.get(name, name) for name in functions} == set(calls)

    def fail(operation: str) -> None:
        raise OSError(errno.EIO, operation)

    before = sorted(os.listdir(directory))
    with osfs.inject(fail):
        for operation, call in calls.items():
            with pytest.raises(OSError, match=operation):
                call()
    assert sorted(os.listdir(directory)) == before
    with pytest.raises(OSError):
        os.fstat(fd)  # a close that fails closes all the same, as in Linux


def test_the_hook_is_gone_after_its_block(directory: int) -> None:
    seen: list[str] = []
    with osfs.inject(seen.append), osfs.inject(lambda _: None):
        osfs.fstat(directory)
    assert seen == []
    with osfs.inject(seen.append):
        osfs.fstat(directory)
    osfs.fstat(directory)
    assert seen == ["fstat"]


def test_a_file_is_read_from_its_start_every_time_up_to_the_limit(directory: int) -> None:
    data = bytes(range(256)) * 8192
    fd = make(directory, "a", data)
    assert osfs.read_all(fd, len(data) + 1) == data
    assert osfs.read_all(fd, 1000) == data[:1000]
    assert osfs.read_all(fd, 10, 100) == data[100:110]
    assert osfs.read_all(fd, 0) == b""
    osfs.close(fd)


def test_a_short_write_goes_on_where_it_stopped() -> None:
    """A pipe that takes a little at a time, emptied between the writes."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    data = b"0123456789abcdef" * 20_000
    received = bytearray()

    def drain(operation: str) -> None:
        if operation == "write" and received is not None:
            os.set_blocking(reader, False)
            while True:
                try:
                    received.extend(os.read(reader, 1 << 16))
                except BlockingIOError:
                    return

    with osfs.inject(drain):
        osfs.write_all(writer, data)
    os.close(writer)
    os.set_blocking(reader, True)
    while piece := os.read(reader, 1 << 16):
        received += piece
    os.close(reader)
    assert bytes(received) == data


def test_a_file_that_may_not_grow_gives_an_error_and_no_silence(tmp_path: Path) -> None:
    code = """
import os, resource, signal, sys
from gemcode.workspace import osfs
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
fd = osfs.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
try:
    osfs.write_all(fd, b"x" * 2000)
except OSError as error:
    print(error.errno, flush=True)
os._exit(0)  # whatever else would be written at exit may not grow either
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(errno.EFBIG)


def test_two_names_are_exchanged_in_one_step(directory: int) -> None:
    os.close(make(directory, "a", b"A"))
    os.close(make(directory, "b", b"B"))
    osfs.exchange(directory, "a", directory, "b")
    fd = osfs.open("a", os.O_RDONLY, dir_fd=directory)
    assert osfs.read_all(fd, 9) == b"B"
    os.close(fd)
    with pytest.raises(FileNotFoundError):
        osfs.exchange(directory, "a", directory, "nothing")


def test_a_rename_does_not_replace_when_told_not_to(directory: int) -> None:
    os.close(make(directory, "a"))
    os.close(make(directory, "b"))
    with pytest.raises(FileExistsError):
        osfs.rename_noreplace(directory, "a", directory, "b")
    osfs.rename_noreplace(directory, "a", directory, "c")
    assert sorted(osfs.listdir(directory)) == ["b", "c"]


def test_a_nul_in_a_name_is_never_cut_off(directory: int) -> None:
    os.close(make(directory, "a"))
    with pytest.raises(ValueError, match="NUL"):
        osfs.openat2(directory, "a\0b", os.O_RDONLY, osfs.RESOLVE_BENEATH)
    with pytest.raises(ValueError, match="NUL"):
        osfs.exchange(directory, "a\0b", directory, "a\0c")


def test_the_kernel_refuses_to_leave_the_directory(directory: int) -> None:
    os.symlink("/etc", "link", dir_fd=directory)
    for path, code in (("../x", errno.EXDEV), ("link/passwd", errno.EXDEV), ("nothing", errno.ENOENT)):
        with pytest.raises(OSError) as caught:
            osfs.openat2(directory, path, os.O_RDONLY, osfs.RESOLVE_BENEATH)
        assert caught.value.errno == code


def test_files_do_not_leak_into_children(directory: int) -> None:
    for fd in (make(directory, "a"), osfs.openat2(directory, "a", os.O_RDONLY, osfs.RESOLVE_BENEATH)):
        assert not os.get_inheritable(fd)
        osfs.close(fd)


def test_extended_attributes_come_back(directory: int) -> None:
    fd = make(directory, "a")
    try:
        osfs.setxattr(fd, "user.gemcode", b"value")
    except OSError as error:
        pytest.skip(f"no extended attributes here: {error.strerror}")
    assert "user.gemcode" in osfs.listxattr(fd)
    assert osfs.getxattr(fd, "user.gemcode") == b"value"
    osfs.removexattr(fd, "user.gemcode")
    assert "user.gemcode" not in osfs.listxattr(fd)
    os.close(fd)


def test_the_file_system_of_an_fd_is_known(directory: int) -> None:
    if sys.platform == "linux":
        fd = os.open("/proc", os.O_RDONLY)
        assert osfs.file_system_type(fd) == 0x9FA0
        os.close(fd)
        with pytest.raises(OSError) as caught:
            osfs.file_system_type(-1)
        assert caught.value.errno == errno.EBADF


def test_the_plain_calls_do_what_they_say(directory: int) -> None:
    fd = make(directory, "a", b"data")
    osfs.fchmod(fd, 0o640)
    osfs.fchown(fd, os.getuid(), os.getgid())
    osfs.ftruncate(fd, 2)
    osfs.fsync(fd)
    osfs.flock(fd, fcntl.LOCK_EX)
    assert osfs.fstat(fd).st_mode & 0o777 == 0o640
    assert osfs.read_all(fd, 9) == b"da"
    assert osfs.statvfs(fd).f_bsize > 0
    osfs.link(directory, "a", directory, "b")
    osfs.mkdir(directory, "d", 0o700)
    osfs.rename(directory, "a", directory, "c")
    osfs.unlink(directory, "b")
    assert sorted(osfs.listdir(directory)) == ["c", "d"]
    with osfs.scandir(directory) as entries:
        assert sorted(entry.name for entry in entries) == ["c", "d"]
    osfs.rmdir(directory, "d")
    assert osfs.fstatat(directory, "c").st_nlink == 1
    assert osfs.stat("/").st_ino
    osfs.close(fd)
    osfs.release(fd)  # nothing to say about a second close, nor about any other


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this were a platform without Linux's calls."""
    monkeypatch.setattr(osfs.sys, "platform", "elsewhere")


def test_without_linux_its_calls_are_refused_or_empty(directory: int, elsewhere: None) -> None:
    with pytest.raises(OSError) as caught:
        osfs.openat2(directory, "a", os.O_RDONLY, osfs.RESOLVE_BENEATH)
    assert caught.value.errno == errno.ENOSYS
    assert osfs.file_system_type(directory) == 0
    assert osfs.listxattr(directory) == []
    for call in (osfs.getxattr, osfs.removexattr):
        with pytest.raises(OSError) as caught:
            call(directory, "user.x")
        assert caught.value.errno == errno.ENOTSUP
    with pytest.raises(OSError) as caught:
        osfs.setxattr(directory, "user.x", b"")
    assert caught.value.errno == errno.ENOTSUP


def test_where_a_full_sync_exists_it_is_the_one_used(directory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda fd, command: asked.append(command))
    osfs.fsync(directory)
    assert asked == [51]


def test_temporary_names_differ() -> None:
    assert len({osfs.random_name(".x-") for _ in range(1000)}) == 1000


class NoSuchCall:
    """A C library that lacks renameat2 (musl), with the bare system call or without."""

    def __init__(self) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        self._handle = self.libc._handle

    def __getattr__(self, name: str) -> object:
        if name == "renameat2":
            raise AttributeError(name)
        return getattr(self.libc, name)


@pytest.fixture
def no_renameat2(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    osfs._rename_call.cache_clear()
    monkeypatch.setattr(osfs, "_libc", NoSuchCall)
    yield
    osfs._rename_call.cache_clear()


@pytest.mark.skipif(sys.platform != "linux", reason="renameat2 is Linux's")
def test_without_the_c_librarys_call_the_bare_one_is_made(directory: int, no_renameat2: None) -> None:
    if platform.machine() not in ("x86_64", "aarch64"):
        pytest.skip("the number of the system call is not known here")
    os.close(make(directory, "a", b"A"))
    os.close(make(directory, "b", b"B"))
    osfs.exchange(directory, "a", directory, "b")
    assert osfs.fstatat(directory, "a").st_size == 1
    with pytest.raises(FileExistsError):
        osfs.rename_noreplace(directory, "a", directory, "b")


def test_where_names_can_not_be_exchanged_it_says_so(
    directory: int, no_renameat2: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "unheard-of")
    with pytest.raises(OSError) as caught:
        osfs.exchange(directory, "a", directory, "b")
    assert caught.value.errno == errno.ENOSYS


def test_an_interrupted_call_is_made_again(directory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [errno.EINTR, errno.EINTR, 0]

    def interrupted(*arguments: object) -> int:
        code = answers.pop(0)
        ctypes.set_errno(code)
        return -1 if code else 0

    monkeypatch.setattr(osfs, "_rename_call", lambda: interrupted)
    osfs.exchange(directory, "a", directory, "b")
    assert answers == []


@pytest.mark.skipif(sys.platform != "linux", reason="openat2 is Linux's")
def test_a_path_that_keeps_changing_under_the_kernel_is_given_up(
    directory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []

    def changing(*arguments: object) -> int:
        tries.append(1)
        ctypes.set_errno(errno.EAGAIN)
        return -1

    monkeypatch.setattr(osfs, "_syscall", lambda: changing)
    with pytest.raises(OSError) as caught:
        osfs.openat2(directory, "a", os.O_RDONLY, osfs.RESOLVE_BENEATH)
    assert caught.value.errno == errno.EAGAIN
    assert len(tries) == 64


def test_the_time_of_birth_survives_changes_and_a_rename(directory: int) -> None:
    fd = make(directory, "a")
    born = osfs.birth_time(fd)
    if not born:
        pytest.skip("this file system does not say when a file was made")
    assert abs(born / 1e9 - time.time()) < 3600
    osfs.write_all(fd, b"x")
    osfs.rename(directory, "a", directory, "b")
    assert osfs.birth_time(fd) == born
    assert osfs.birth_time(-1) == 0
    osfs.close(fd)
