"""The path cases of the test plan as data: lexical (P), links and kinds (S), protected names (G).

A row says what to build, which path to ask for, and what each operation must answer: "ok" or the kind of the refusal,
several with "|". Any table of operations can be run over it: Root's own here, the tools' elsewhere.
"""

import os
import shutil
import socket
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gemcode.workspace.names import NameClass

INSIDE = b"inside\n"
OUTSIDE = b"OUTSIDE-THE-PROJECT\n"


@dataclass(frozen=True, slots=True)
class Place:
    """A directory that is all canary, but for the project in it."""

    outside: Path

    @property
    def project(self) -> Path:
        return self.outside / "proj"

    def file(self, path: str, data: bytes = INSIDE) -> None:
        target = self.project / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    def link(self, path: str, target: str) -> None:
        link = self.project / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)


Setup = Callable[[Place], None]


def nothing(place: Place) -> None:
    """The base tree is enough."""


@dataclass(frozen=True, slots=True)
class Row:
    id: str
    path: object  # what the model gave, or a function of the place
    read: str
    list: str
    write: str
    setup: Setup = nothing
    after_open: Setup = nothing  # what happens to the project while gemcode runs
    hook: Callable[[Place], Callable[[str], None]] | None = None  # what happens between two system calls
    root: Callable[[Place], str] = lambda place: str(place.project)
    use: str | None = None  # the hint that the refusal must carry
    name_class: NameClass = NameClass.ORDINARY
    marked: bool = False  # an ordinary name that still deserves a word
    shared: bool = False  # a hard link: the bytes outside are also those inside
    bare: bool = False  # inside a bare repository
    wide: bool = False  # a root worth a question at start
    needs: str = ""  # "device": root's mknod; "mounts": a mount namespace; "fuse": a file system of our own
    operations: tuple[str, ...] = ("list", "read", "search", "edit", "write")

    def given(self, place: Place) -> object:
        return self.path(place) if callable(self.path) else self.path

    def expected(self, operation: str) -> frozenset[str]:
        """Edit needs a file that can be read and written; search takes a file or a directory."""
        if operation == "edit":
            answer = self.write if self.write != "ok" else self.read
        elif operation == "search":
            answer = "ok" if "ok" in (self.read, self.list) else f"{self.read}|{self.list}"
        else:
            answer = str(getattr(self, operation))
        return frozenset(answer.split("|"))


def build(outside: Path) -> Place:
    place = Place(outside)
    (outside / "outdir").mkdir(parents=True)
    (outside / "proj-evil").mkdir()
    for path in ("outside.txt", "outdir/x", "outdir/ok", "proj-evil/x", "x"):
        (outside / path).write_bytes(OUTSIDE)
    place.file("ok.txt")
    place.file("a/ok")
    place.file("a/deep/ok")
    return place


def snapshot(directory: Path, skip: Path | None = None) -> dict[str, tuple[object, ...]]:
    """Everything below `directory` but `skip`: kind, mode, content or target, time of change."""
    found: dict[str, tuple[object, ...]] = {}
    waiting = [directory]
    while waiting:
        current = waiting.pop()
        for entry in os.scandir(current):
            path = Path(entry.path)
            if path == skip:
                continue
            status = entry.stat(follow_symlinks=False)
            content: object = None
            if entry.is_symlink():
                content = os.readlink(path)
            elif stat.S_ISREG(status.st_mode):
                content = path.read_bytes()
            elif entry.is_dir():
                waiting.append(path)
            found[entry.path] = (status.st_mode, status.st_nlink, status.st_mtime_ns, content)
    return found


def refused(id: str, path: object, kind: str, **more: object) -> Row:
    """One kind of refusal whatever the operation."""
    return Row(id, path, read=kind, list=kind, write=kind, **more)  # type: ignore[arg-type]  # only passes them on


def absent(id: str, path: str, **more: object) -> Row:
    """A literal name that does not exist: nothing to read, but it may be written."""
    return Row(id, path, read="not_found", list="not_found", write="ok", **more)  # type: ignore[arg-type]


def present(id: str, path: str, **more: object) -> Row:
    """An ordinary file that is there."""
    more.setdefault("setup", lambda place: place.file(path))
    return Row(id, path, read="ok", list="not_a_directory", write="ok", **more)  # type: ignore[arg-type]


def linked(id: str, target: str, read: str, list: str | None = None, path: str = "link") -> Row:
    """A link in the project; no link is ever written through or replaced."""
    setup: Setup = lambda place: place.link("link", target)  # noqa: E731  (one line, made per row)
    return Row(id, path, read=read, list=list or read, write="symlink", setup=setup)


def protected(id: str, path: str, real: str = ".git/config", kind: str = "protected") -> Row:
    return refused(id, path, kind, setup=lambda place: place.file(real), name_class=NameClass.NEVER)


LEXICAL = (
    refused("P1", "", "invalid_path"),
    Row("P2", ".", read="invalid_path", list="ok", write="invalid_path"),
    refused("P3", "..", "outside_project"),
    refused("P4", "../x", "outside_project"),
    refused("P5", "a/../../x", "outside_project"),
    refused("P6", "a/..", "invalid_path", use="."),
    refused("P7", "./../x", "outside_project"),
    refused("P8", "a/../ok.txt", "invalid_path", use="ok.txt"),
    refused("P9", "/etc/passwd", "outside_project"),
    refused("P10", "//etc/passwd", "outside_project"),
    refused("P11", lambda place: str(place.project), "invalid_path", use="."),
    absent("P12", "~/x"),
    absent("P13", "~root/x"),
    absent("P14", "$HOME/x"),
    refused("P15", "file:///etc/passwd", "invalid_path"),
    absent("P16", "..%2fx"),
    absent("P17", "%2e%2e/x"),
    refused("P18", "..\\x", "invalid_path"),
    refused("P19", "..\\\\..\\\\x", "invalid_path"),
    refused("P20", "a\0b", "invalid_path"),
    refused("P21", "ok.txt\0", "invalid_path"),
    refused("P22", "a\nb", "invalid_path"),
    refused("P23", "a\x1bb", "invalid_path"),
    refused("P24", "a\x7fb", "invalid_path"),
    refused("P25", "x" * 256, "invalid_path"),
    absent("P26", "x" * 255),
    refused("P27", ("y" * 100 + "/") * 40 + "z" * 57, "invalid_path"),
    refused("P28", "x/" * 64 + "x", "invalid_path"),
    refused("P29", "x/" * 3000, "invalid_path"),
    refused("P30", "x" * (1 << 20), "invalid_path"),
    Row("P31", "a//ok", read="ok", list="not_a_directory", write="ok"),
    Row("P32", "./ok.txt", read="ok", list="not_a_directory", write="ok"),
    refused("P33", "a/.", "invalid_path"),
    Row("P34", "a/ok/", read="invalid_path", list="not_a_directory", write="invalid_path", use="a/ok"),
    present("P35", "trailing ", marked=True),
    present("P36", "-rf"),
    refused("P37", "C:\\x", "invalid_path"),
    refused("P38", "C:x", "invalid_path"),
    refused("P39", "\\\\host\\share", "invalid_path"),
    refused("P40", "\\\\?\\C:\\x", "invalid_path"),
    refused("P41", "//./COM1", "outside_project"),
    refused("P42", "x:stream", "invalid_path"),
    present("P43", "CON", marked=True),
    present("P44", "nul.txt", marked=True),
    present("P45", "AUX ", marked=True),
    present("P46", "com1.c", marked=True),
    present("P47", "LPT9", marked=True),
    present("P48", "name.", marked=True),
    refused("P49", 7, "invalid_path"),
    refused("P50", None, "invalid_path"),
    refused("P51", ["ok.txt"], "invalid_path"),
    refused("P52", {"path": "ok.txt"}, "invalid_path"),
    refused("P53", True, "invalid_path"),
    refused("P54", "lone\ud800", "invalid_path"),
    Row(
        "P55",
        "handle:caf%E9.txt",
        read="ok",
        list="not_a_directory",
        write="invalid_path",
        setup=lambda place: place.file(os.fsdecode(b"caf\xe9.txt")),
    ),
    present("P56", "   ", name_class=NameClass.RUNS_LATER),
    present("P57", "\u202egnp.exe", name_class=NameClass.RUNS_LATER),
    refused("P58", "../proj-evil/x", "outside_project"),
    present("P59", "ok.txt", root=lambda place: f"{place.project}/"),
    present(
        "P60",
        "ok.txt",
        setup=lambda place: (place.outside / "alias").symlink_to("proj"),
        root=lambda place: f"{place.outside}/alias",
    ),
)


def _chain(place: Place, length: int, end: str) -> None:
    place.link(f"chain{length}", end)
    for number in range(length - 1, 0, -1):
        place.link(f"chain{number}", f"chain{number + 1}")
    place.link("link", "chain1")


def _loop(place: Place) -> None:
    place.link("link", "other")
    place.link("other", "link")


def _socket(place: Place) -> None:
    here = os.getcwd()
    os.chdir(place.project)  # the name of a socket may have only about 100 bytes
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("kind")
    finally:
        os.chdir(here)


def _replace_between(place: Place) -> Callable[[str], None]:
    """Replace the file once it is open and before it is looked at, so that it has no name any more."""
    opened: list[str] = []

    def hook(operation: str) -> None:
        if operation in ("open", "openat2"):
            opened.append(operation)
        elif operation == "fstat" and opened:
            (place.outside / "new").write_bytes(INSIDE)
            os.replace(place.outside / "new", place.project / "ok.txt")

    return hook


def _move(place: Place) -> None:
    place.project.rename(place.outside / "moved")


def _replace_root(place: Place) -> None:
    _move(place)
    place.project.symlink_to("outdir")


LINKS_AND_KINDS = (
    linked("S1", "a/ok", "ok", "not_a_directory"),
    linked("S2", "../outside.txt", "outside_project"),
    linked("S3", "../outdir", "outside_project", path="link/x"),
    Row(
        "S4",
        "link",
        read="outside_project",
        list="outside_project",
        write="symlink",
        setup=lambda place: place.link("link", str(place.project / "ok.txt")),
    ),
    Row("S5", "link", "ok", "not_a_directory", "symlink", setup=lambda place: _chain(place, 2, "a/deep/../ok")),
    Row(
        "S6",
        "link",
        "outside_project",
        "outside_project",
        "symlink",
        setup=lambda p: _chain(p, 2, "a/../../outside.txt"),
    ),
    Row("S7", "link", "symlink", "symlink", "symlink", setup=_loop),
    linked("S8", "link", "symlink"),
    Row("S9", "link", "symlink", "symlink", "symlink", setup=lambda place: _chain(place, 40, "ok.txt")),
    linked("S10", "a/nothing", "not_found"),
    linked("S11", "../nothing", "outside_project"),
    linked("S12", "..", "outside_project"),
    linked("S13", "/proc/self/root", "outside_project"),
    linked("S14", "/proc/self/cwd", "outside_project"),
    linked("S15", "/proc/self/fd/3", "outside_project"),
    linked("S16", "/dev/stdin", "outside_project"),
    linked("S17", "/dev/zero", "outside_project"),
    Row(
        "S18",
        "kind",
        "not_a_file",
        "not_a_directory",
        "not_a_file",
        setup=lambda place: os.mkfifo(place.project / "kind"),
    ),
    Row("S19", "kind", "not_a_file", "not_a_directory", "not_a_file", setup=_socket),
    Row(
        "S20",
        "kind",
        read="not_a_file|permission",
        list="not_a_directory",
        write="not_a_file|permission",
        setup=lambda place: os.mknod(place.project / "kind", stat.S_IFCHR | 0o666, os.makedev(1, 5)),
        needs="device",
    ),
    Row(
        "S21",
        "kind",
        read="not_a_file|permission",
        list="not_a_directory",
        write="not_a_file|permission",
        setup=lambda place: os.mknod(place.project / "kind", stat.S_IFBLK | 0o666, os.makedev(240, 250)),
        needs="device",
    ),
    Row("S22", "a", read="is_a_directory", list="ok", write="is_a_directory"),
    refused("S23", "ok.txt/x", "not_a_directory"),
    *(
        Row(
            number,
            "hard",
            read="ok",
            list="not_a_directory",
            write="protected",
            setup=lambda place: os.link(place.outside / "outside.txt", place.project / "hard"),
            shared=True,
            operations=operations,
        )
        for number, operations in (("S24", ("write", "edit")), ("S25", ("read", "list", "search")))
    ),
    Row(
        "S26",
        "hard",
        read="ok",
        list="not_a_directory",
        write="protected",
        setup=lambda place: os.link(place.project / "ok.txt", place.project / "hard"),
    ),
    Row(
        "S27",
        "ok.txt",
        "stale",
        "not_a_directory",
        "ok|stale",
        hook=_replace_between,
        operations=("read", "list", "write"),
    ),
    Row("S28", "mount/ok", "ok", "not_a_directory", "ok", needs="mounts"),
    Row("S29", "tmpfs/new", "not_found", "not_found", "ok", needs="mounts"),
    Row("S30", "proc/version", "protected", "not_a_directory", "protected", needs="mounts"),
    refused("S31", "stalled/x", "timeout", needs="fuse"),
    Row("S32", "a/ok", "ok", "not_a_directory", "ok", after_open=_move),
    Row("S33", "a/ok", "not_found", "not_found", "not_found", after_open=lambda place: shutil.rmtree(place.project)),
    Row("S34", "a/ok", "ok", "not_a_directory", "ok", after_open=_replace_root),
    Row("S35", "a/ok", "ok", "not_a_directory", "ok", after_open=lambda place: place.outside.chmod(0)),
    Row("S36", ".", "ok", "ok", "ok", root=lambda place: "/", wide=True, operations=()),
)


def _bare_repository(place: Place) -> None:
    place.file("bare/HEAD")
    place.file("bare/objects/info/packs")
    place.file("bare/config")


ZWNJ = "\u200c"
PROTECTED_NAMES = (
    protected("G1", ".git/config"),
    protected("G2", ".git/hooks/pre-commit", ".git/hooks/pre-commit"),
    protected("G3", ".GIT/config"),
    protected("G4", ".Git/x"),
    protected("G5", ".git /x"),
    protected("G6", ".git./x"),
    protected("G7", ".git. . /x"),
    protected("G8", "git~1/x"),
    protected("G9", f".g{ZWNJ}it/x"),
    protected("G10", f"{ZWNJ}.git/x"),
    protected("G11", ".git\ufeff/x"),
    protected("G12", "．git/x"),
    protected("G13", ".git::$INDEX_ALLOCATION/x", kind="invalid_path"),
    protected("G14", ".git:x", kind="invalid_path"),
    protected("G15", ".git\\hooks\\x", kind="invalid_path"),
    protected("G16", "sub/.git/hooks/x", "sub/.git/hooks/x"),
    protected("G17", ".git", ".git"),
    present("G18", "bare/config", setup=_bare_repository, bare=True),
    present("G19", ".gitmodules", name_class=NameClass.RUNS_LATER),
    present("G20", ".gitattributes", name_class=NameClass.RUNS_LATER),
    present("G21", ".gitignore"),
    present("G22", ".github/x.md"),
    present("G22b", ".github/workflows/ci.yml", name_class=NameClass.RUNS_LATER),
    present("G23", "x.git/y"),
    present("G24", "..git"),
    present("G25", ".gitkeep"),
    present("G26", ".env", name_class=NameClass.SECRET),
    present("G27", ".env.local", name_class=NameClass.SECRET),
    present("G28", ".ENV", name_class=NameClass.SECRET),
    present("G29", "id_ed25519", name_class=NameClass.SECRET),
    present("G30", "server.pem", name_class=NameClass.SECRET),
    present("G31", ".netrc", name_class=NameClass.SECRET),
    present("G32", ".env.example"),
    present("G33", ".bashrc", name_class=NameClass.RUNS_LATER),
    present("G34", ".envrc", name_class=NameClass.RUNS_LATER),
    present("G35", ".vscode/tasks.json", name_class=NameClass.RUNS_LATER),
    present("G36", ".idea/workspace.xml", name_class=NameClass.RUNS_LATER),
    present("G37", ".husky/pre-commit", name_class=NameClass.RUNS_LATER),
    present("G38", "conftest.py", name_class=NameClass.RUNS_LATER),
    present("G39", "Makefile", name_class=NameClass.RUNS_LATER),
    present("G40", "package.json", name_class=NameClass.RUNS_LATER),
    protected("G41", ".gemcode.toml", ".gemcode.toml"),
    protected("G42", ".gemcodeignore", ".gemcodeignore"),
    protected("G43", "x.pth", "x.pth"),
    protected("G44", "sitecustomize.py", "sitecustomize.py"),
    protected("G45", ".gemcode-tmp-0123456789abcdef", ".gemcode-tmp-0123456789abcdef"),
    # Not in the plan: a link must not lend a protected file a harmless name.
    Row(
        "G46",
        "notes",
        "protected",
        "not_a_directory|protected",
        "symlink",
        setup=lambda p: (p.file(".git/config"), p.link("notes", ".git/config")),
    ),
    Row(
        "G47",
        "n/config",
        "protected",
        "not_a_directory|protected",
        "symlink",
        setup=lambda p: (p.file(".git/config"), p.link("n", ".git")),
    ),
)

ROWS = (*LEXICAL, *LINKS_AND_KINDS, *PROTECTED_NAMES)
