"""The project directory as an open fd, and the only way from a path string to an open file beneath it.

It never checks a path and uses it later: what was opened is what was checked. It knows no tool and asks no question.
"""

import contextlib
import errno
import os
import posixpath
import stat
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Literal, NoReturn, Self

from gemcode.agent.errors import ToolError
from gemcode.workspace import name_rules, names, osfs
from gemcode.workspace.refusal import tool_error
from gemcode.workspace.resolve import Opened, Resolver, open_by_kernel, open_by_walk

Identity = tuple[int, int]  # device and inode

_READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY
_BARE_REPOSITORY = ("HEAD", "objects")  # by these two git knows one, together with refs
# File systems made by the kernel, by magic number: their files are not the user's, and a read can act or never end.
_KERNEL_MADE = frozenset(
    {
        *(0x9FA0, 0x62656572, 0x1CD1, 0x64626720, 0x74726163, 0x73636673),  # proc, sys, devpts, debug, trace, security
        *(0x62656570, 0x27E0EB, 0x63677270, 0xCAFE4A11, 0x6E736673),  # config, cgroup, cgroup2, bpf, namespaces
        *(0x19800202, 0x42494E4D, 0xDE5E81E4, 0x6165676C, 0xF97CFF8C),  # mqueue, binfmt, efivars, pstore, selinux
    }
)


class _Closing:
    """An open fd that a `with` block closes."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def close(self) -> None:
        """Close once; a second call does nothing."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            osfs.release(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class OpenFile(_Closing):
    """A regular file, open for reading. `path` names it without links, so that its class is that of the real file."""

    __slots__ = ("path", "stat")

    def __init__(self, fd: int, path: str, status: os.stat_result) -> None:
        super().__init__(fd)
        self.path = path
        self.stat = status

    @property
    def hard_linked(self) -> bool:
        """Whether another name, perhaps outside the project, shows the same bytes."""
        return self.stat.st_nlink > 1

    def read(self, limit: int) -> bytes:
        """All bytes, counted while reading, because the size in `stat` may lie or grow; ToolError when over `limit`."""
        shown = names.to_handle(self.path)
        data = b""
        if self.stat.st_size <= limit:
            try:
                data = osfs.read_all(self.fd, limit + 1)
            except OSError as error:
                raise tool_error(error, shown) from error
        size = max(self.stat.st_size, len(data))
        if size > limit:
            raise ToolError("too_large", f"{shown} is larger than the limit of {limit} bytes.", limit=limit, size=size)
        return data


class Parent(_Closing):
    """The directory that holds, or will hold, the file to write: open, and reached without any link.

    `missing` are the directories between it and `leaf` that do not exist yet, `created` those that create=True made.
    """

    __slots__ = ("created", "identity", "leaf", "missing", "path")

    def __init__(self, fd: int, path: str, missing: tuple[str, ...] = (), created: tuple[str, ...] = ()) -> None:
        super().__init__(fd)
        self.path = path
        self.leaf = posixpath.basename(path)
        self.missing = missing
        self.created = created
        self.identity = _identity(fd)

    def open_leaf(self) -> OpenFile | None:
        """The present file that a write would replace, or None; what must not be replaced is refused."""
        if self.missing:
            return None
        try:
            fd = osfs.open(self.leaf, _READ_FLAGS | os.O_NOFOLLOW, dir_fd=self.fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise tool_error(error, self.path) from error
        file = _regular(fd, self.path)
        if file.hard_linked:
            file.close()
            raise ToolError("protected", f"{self.path} has a second name (a hard link), which a write would split off.")
        return file


class Root(_Closing):
    """The project: one directory, opened once as the user named it. Every path given to it starts from that fd."""

    __slots__ = ("_own", "_resolve", "display", "identity", "resolver")

    def __init__(self, fd: int, display: str, resolver: Literal["openat2", "walk"]) -> None:
        super().__init__(fd)
        self.display = display
        self.resolver = resolver
        self.identity = _identity(fd)
        self._resolve: Resolver = open_by_kernel if resolver == "openat2" else open_by_walk
        self._own: tuple[list[str], ...] = ()

    @classmethod
    def open(cls, path: str | os.PathLike[str], resolver: Literal["auto", "openat2", "walk"] = "auto") -> Self:
        """Open the project; in this one path links are followed, because it comes from the user."""
        display = os.path.abspath(path)
        try:
            fd = osfs.open(display, _DIRECTORY_FLAGS)
            with closing_on_error(fd):
                if _kernel_made(fd):
                    raise ToolError("protected", f"{display} belongs to the kernel and can't be a project.")
                return cls(fd, display, _choose_resolver(fd) if resolver == "auto" else resolver)
        except OSError as error:
            raise tool_error(error, display) from error

    def keep_out_of(self, *directories: str | os.PathLike[str]) -> None:
        """No tool gets into these, gemcode's own: they are inside the project where that is a home directory."""
        here = os.path.realpath(self.display)
        for directory in directories:
            relative = os.path.relpath(os.path.realpath(directory), here)
            if relative.split("/")[0] != "..":
                self._own += ([names.fold(part) for part in relative.split("/") if part != "."],)

    def is_own(self, path: str) -> bool:
        """Whether a path (without links) is in a directory of gemcode's own."""
        if not self._own:
            return False
        parts = [names.fold(part) for part in path.split("/") if part != "."]
        return any(parts[: len(own)] == own for own in self._own)

    def open_file(self, path: str, *, internal: bool = False) -> OpenFile:
        """Open a regular file to read it. `internal` lets gemcode's own code read class A files; no tool may set it."""
        fd, real = self._open(path, self._gate(path), _READ_FLAGS, internal=internal)
        return _regular(fd, real)

    def open_directory(self, path: str, *, follow: bool = True) -> int:
        """A directory's fd, to list it; the caller closes it."""
        return self.open_directory_and_name(path, follow=follow)[0]

    def open_directory_and_name(self, path: str, *, follow: bool = True) -> Opened:
        """As open_directory, with the path that it has without links."""
        return self._open(path, self._gate(path, directory=True), _DIRECTORY_FLAGS, follow=follow)

    def open_parent(self, path: str, *, create: bool = False) -> Parent:
        """The directory to write `path` in. No link anywhere on the path, the last name included."""
        tidy = self._gate(path, handles=False)
        self._refuse_never(tidy, path)
        try:
            parent = self._open_parent(tidy, create)
            with closing_on_error(parent.fd):
                self.admit(parent.fd, path)
                _refuse_link(parent)
        except OSError as error:
            self._refuse(error, path)
        return parent

    def in_bare_repository(self, path: str) -> bool:
        """Whether a write to `path` goes into what git takes for a repository without a `.git`, and runs hooks from."""
        parts = self._gate(path).split("/")
        for depth, name in enumerate(parts):
            try:
                fd, _ = self._resolve(self.fd, "/".join(parts[:depth]) or ".", _DIRECTORY_FLAGS, False)
            except OSError:
                return False  # there is nothing yet below
            try:
                if all(needed == name or _exists(fd, needed) for needed in _BARE_REPOSITORY):
                    return True
            finally:
                osfs.release(fd)
        return False

    def _open_parent(self, tidy: str, create: bool) -> Parent:
        above = posixpath.dirname(tidy)
        with contextlib.suppress(FileNotFoundError):
            fd, _ = self._resolve(self.fd, above or ".", _DIRECTORY_FLAGS, False)
            with closing_on_error(fd):
                return Parent(fd, tidy)
        return self._open_deepest(tidy, above.split("/") if above else [], create)

    def _open_deepest(self, tidy: str, directories: list[str], create: bool) -> Parent:
        """Go down as far as there are directories, making the missing ones if asked, each from the fd above it."""
        paths = ["/".join(directories[: depth + 1]) for depth in range(len(directories))]
        created: list[str] = []
        fd = osfs.open(".", _DIRECTORY_FLAGS, dir_fd=self.fd)
        for depth, name in enumerate(directories):
            with closing_on_error(fd):
                try:
                    below = open_by_walk(fd, name, _DIRECTORY_FLAGS, False)[0]
                except FileNotFoundError:
                    if not create:
                        return Parent(fd, tidy, missing=tuple(paths[depth:]))
                    below = _make_directory(fd, name)
                    created.append(paths[depth])
            osfs.release(fd)
            fd = below
        with closing_on_error(fd):
            return Parent(fd, tidy, created=tuple(created))

    def _gate(self, path: str, *, directory: bool = False, handles: bool = True) -> str:
        """The lexical gate, plus a hint when an absolute path is one of the project's own."""
        try:
            return names.check_lexical(path, directory=directory, handles=handles)
        except ToolError as error:
            if not isinstance(path, str) or not path.startswith("/") or error.kind != "outside_project":
                raise
        relative = posixpath.relpath(posixpath.normpath("/" + path.lstrip("/")), self.display)
        if relative == ".." or relative.startswith("../"):
            raise ToolError("outside_project", "The path leads outside the project.")
        raise ToolError("invalid_path", "Give the path relative to the project.", use=relative)

    def _open(self, path: str, tidy: str, flags: int, *, follow: bool = True, internal: bool = False) -> Opened:
        if not internal:
            self._refuse_never(tidy, path)
        try:
            fd, real = self._resolve(self.fd, tidy, flags, follow)
            with closing_on_error(fd):
                if real != tidy and not internal:
                    self._refuse_never(real, path)
                self.admit(fd, path)
        except OSError as error:
            self._refuse(error, path)
        return fd, real

    def admit(self, fd: int, path: str) -> None:
        """ToolError when a mount inside the project led to procfs or the like; ENOENT for a deleted directory."""
        status = osfs.fstat(fd)
        if stat.S_ISDIR(status.st_mode) and status.st_nlink == 0:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        if status.st_dev != self.identity[0] and _kernel_made(fd):
            raise ToolError("protected", f"{path} is on a file system that belongs to the kernel.")

    def _refuse_never(self, path: str, asked: str) -> None:
        own = self.is_own(path)
        if own or names.classify(path) is names.NameClass.NEVER:
            raise ToolError("protected", f"{asked} is protected: it {name_rules.OURS if own else names.reason(path)}.")

    def _refuse(self, error: OSError, path: str) -> NoReturn:
        if error.errno == errno.ENOENT and _is_deleted(self.fd):
            raise ToolError("not_found", "The project directory has been deleted.") from error
        raise tool_error(error, path) from error


def is_root_or_home(root: Root) -> bool:
    """Whether the project is the whole file system, the home directory or one above it: worth a question at start."""
    home = Path.home()
    wide = set()
    for place in (home, *home.parents):
        with contextlib.suppress(OSError):
            status = osfs.stat(str(place))
            wide.add((status.st_dev, status.st_ino))
    return root.identity in wide


@contextlib.contextmanager
def closing_on_error(fd: int) -> Iterator[None]:
    """The fd is handed on if all goes well, and closed if not."""
    try:
        yield
    except BaseException:
        osfs.release(fd)
        raise


def _identity(fd: int) -> Identity:
    status = osfs.fstat(fd)
    return status.st_dev, status.st_ino


def _is_deleted(fd: int) -> bool:
    try:
        return osfs.fstat(fd).st_nlink == 0
    except OSError:
        return False


def _choose_resolver(fd: int) -> Literal["openat2", "walk"]:
    """Try a harmless call once: old kernels lack openat2, and seccomp filters often refuse it."""
    try:
        osfs.release(open_by_kernel(fd, ".", _DIRECTORY_FLAGS, False)[0])
    except OSError:
        return "walk"
    return "openat2"


def _exists(fd: int, name: str) -> bool:
    try:
        osfs.fstatat(fd, name)
    except OSError:
        return False
    return True


def _kernel_made(fd: int) -> bool:
    return osfs.file_system_type(fd) in _KERNEL_MADE


def _make_directory(fd: int, name: str) -> int:
    with contextlib.suppress(FileExistsError):
        osfs.mkdir(fd, name)
    osfs.fsync(fd)
    return open_by_walk(fd, name, _DIRECTORY_FLAGS, False)[0]


def _regular(fd: int, path: str) -> OpenFile:
    """`fd` as an OpenFile; closed and refused when it is anything but a regular file that still has a name."""
    shown = names.to_handle(path)
    with closing_on_error(fd):
        try:
            status = osfs.fstat(fd)
        except OSError as error:
            raise tool_error(error, shown) from error
        if stat.S_ISDIR(status.st_mode):
            raise ToolError("is_a_directory", f"{shown} is a directory.")
        if not stat.S_ISREG(status.st_mode):
            raise ToolError("not_a_file", f"{shown} is not a regular file.")
        if status.st_nlink == 0:
            raise ToolError("stale", f"{shown} was replaced while it was being opened; try again.")
        return OpenFile(fd, path, status)


def _refuse_link(parent: Parent) -> None:
    """A link as the last name would be replaced, not written through; neither is what the user means."""
    if parent.missing:
        return
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISLNK(osfs.fstatat(parent.fd, parent.leaf).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
