"""The fixture projects through the tools: ordinary ones are read and changed as they should be, the hostile one gets
nowhere."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gemcode import app, config
from gemcode.agent.bounds import Bounds
from gemcode.agent.messages import ToolResult
from gemcode.agent.policy import Mode
from gemcode.agent.registry import Limits, ToolRegistry
from gemcode.tools import build_tools
from gemcode.tools.workbench import Workbench
from gemcode.workspace import names
from gemcode.workspace.known import KnownVersions
from gemcode.workspace.root import Root
from gemcode.workspace.store import Store
from sandbox_fixtures import build_hostile
from tests.tools.bench import ToolBench
from tests.workspace.corpus import snapshot
from tests.workspace.operations import Resolver

FIXTURES = Path(__file__).resolve().parent.parent / "sandbox_fixtures"
UNLIMITED = Limits(calls_per_turn=10**9, writes_per_turn=10**9, calls_per_minute=1e9, writes_per_minute=1e9)
HANG = 20.0  # seconds: no answer takes a tenth of it, but the machine may be busy
REFUSALS = {
    *("outside_project", "invalid_path", "not_found", "not_a_file", "not_a_directory", "is_a_directory", "symlink"),
    *("protected", "too_large", "denied", "not_read", "no_match", "binary", "permission", "no_change", "stale"),
}


@contextmanager
def bench_on(project: Path, state: Path, resolver: Resolver = "walk") -> Iterator[ToolBench]:
    with Root.open(project, resolver) as root, closing(Store.open(state, root, "test")) as store:
        tools = ToolBench(project, Workbench(root, store, KnownVersions(), Bounds()))
        tools.registry = ToolRegistry(build_tools(tools.bench), limits=UNLIMITED)
        yield tools


def copy_of(name: str, directory: Path) -> Path:
    target = directory / name
    for path in sorted((FIXTURES / name).rglob("*")):
        copy = target / path.relative_to(FIXTURES / name)
        if path.is_dir():
            copy.mkdir(parents=True, exist_ok=True)
        else:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    return target


# --- ordinary projects ---

LISTED = {
    "page": ["index.html", "package.json", "style.css", "timer.js"],
    "shop": [
        *(".gitignore", "AGENTS.md", "Makefile", "README.md", "notes/colours.txt"),
        *("shop/__init__.py", "shop/cart.py", "shop/prices.py", "tests/__init__.py", "tests/test_cart.py"),
    ],
    "polyglot": [
        *(".gitignore", "README.md", "encodings/binary.dat", "encodings/cr.txt", "encodings/crlf.txt"),
        *("encodings/empty.txt", "encodings/latin1.txt", "encodings/mixed.txt", "encodings/no-final-newline.txt"),
        *("encodings/pixel.png", "encodings/utf16-be.txt", "encodings/utf16-le.txt", "encodings/utf8-bom.txt"),
        *("encodings/utf8.txt", "go/main.go", "important.log", "rust/.gitignore", "rust/src/main.rs", "sh/greet.sh"),
        *("web/.gitignore", "web/dist/keep.txt", "web/src/greet.ts"),
    ],
}


@pytest.mark.parametrize("name", LISTED)
def test_an_ordinary_project_is_listed_without_what_it_ignores(name: str, tmp_path: Path) -> None:
    with bench_on(copy_of(name, tmp_path), tmp_path / "state") as tools:
        assert tools.output("list_files")["files"] == LISTED[name]


ENCODINGS = {
    "utf8.txt": ("utf-8", "lf"),
    "utf8-bom.txt": ("utf-8-sig", "lf"),
    "latin1.txt": ("latin-1", "lf"),
    "utf16-le.txt": ("utf-16-le", "lf"),
    "utf16-be.txt": ("utf-16-be", "lf"),
    "crlf.txt": ("utf-8", "crlf"),
    "cr.txt": ("utf-8", "cr"),
    "mixed.txt": ("utf-8", "mixed"),
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_an_edit_in_any_encoding_changes_nothing_else(name: str, tmp_path: Path) -> None:
    project = copy_of("polyglot", tmp_path)
    path = f"encodings/{name}"
    before = (project / path).read_bytes()
    with bench_on(project, tmp_path / "state") as tools:
        seen = tools.output("read_file", path=path)
        first = seen["content"].splitlines()[0]
        result = tools.call("edit_file", path=path, edits=[{"old": first, "new": "other"}])
        after = (project / path).read_bytes()
        assert (seen["encoding"], seen["line_ends"]) == ENCODINGS[name] and result.ok
        codec = ENCODINGS[name][0].removesuffix("-sig")
        old, new = first.encode(codec), "other".encode(codec)
        assert after == before.replace(old, new, 1) != before


@pytest.mark.parametrize(("name", "said"), [("binary.dat", "binary"), ("pixel.png", "binary")])
def test_a_binary_file_is_named_as_such(name: str, said: str, tmp_path: Path) -> None:
    with bench_on(copy_of("polyglot", tmp_path), tmp_path / "state") as tools:
        assert said in tools.output("read_file", path=f"encodings/{name}")


def test_git_leaves_the_bytes_of_the_fixtures_alone() -> None:
    assert "* -text" in (FIXTURES / ".gitattributes").read_text().splitlines()
    assert b"\r\n" in (FIXTURES / "polyglot/encodings/crlf.txt").read_bytes()
    assert (FIXTURES / "polyglot/encodings/utf16-le.txt").read_bytes().startswith(b"\xff\xfe")


# --- the hostile project ---


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("hostile") / "place"
    assert set(build_hostile.build(directory)) <= {"character device", "block device", "socket"}
    yield directory
    build_hostile.demolish(directory)


@pytest.fixture
def unharmed(hostile: Path) -> Iterator[Path]:
    """The hostile place; afterwards all around the project must be as it was, and no trap sprung."""
    before = snapshot(hostile, skip=hostile / "project")
    yield hostile
    after = snapshot(hostile, skip=hostile / "project")
    assert {path: found[0::3] for path, found in after.items()} == {path: found[0::3] for path, found in before.items()}


def every_path(project: Path) -> list[str]:
    """What a model could ask for: all entries of the first levels, whatever they are, as text and by handle."""
    found = [
        ".",
        "..",
        "../outside/secret.txt",
        "/etc/passwd",
        "deep/" + "d/" * 62 + "d",
        "many",
        "links/directory/inner",
    ]
    for directory in ("", *sorted(os.listdir(project))):
        if (project / directory).is_dir() and directory != "many":
            found += [os.path.join(directory, name) for name in sorted(os.listdir(project / directory))]
    return [each for path in found for each in {path, names.to_handle(path)}]


def calls(path: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("list_files", {"path": path}),
        ("read_file", {"path": path}),
        ("search_files", {"path": path, "pattern": "(a*)*b|OUTSIDE|nothing"}),
        ("edit_file", {"path": path, "edits": [{"old": "nothing special", "new": "changed"}]}),
        ("write_file", {"path": path, "content": "overwritten\n"}),
    ]


def timed(tools: ToolBench, name: str, args: dict[str, Any]) -> ToolResult:
    started = time.monotonic()
    result = tools.call(name, **args)
    assert time.monotonic() - started < HANG, (name, args)
    return result


@pytest.mark.parametrize("resolver", ["openat2", "walk"])
def test_no_tool_gets_out_of_the_hostile_project_hangs_or_breaks(
    unharmed: Path, resolver: Resolver, tmp_path: Path
) -> None:
    project = unharmed / "project"
    protected = {path: (project / path).read_bytes() for path in (".git/config", ".gemcode.toml", *build_hostile.TRAPS)}
    (project / "plain.txt").write_text("nothing special\n")
    count = 0
    with bench_on(project, tmp_path / "state", resolver) as tools:
        for path in every_path(project):
            for name, args in calls(path):
                tools.turn = replace(tools.turn, mode=Mode.NONE if name == "write_file" else Mode.ALL)
                result = timed(tools, name, args)
                count += 1
                assert result.ok or result.error_kind in REFUSALS, (name, path, result.response)
                assert build_hostile.SECRET not in str(result.response), (name, path)
    assert count > 400
    assert (project / "plain.txt").read_text() == "changed\n"  # the one edit that made sense
    assert {path: (project / path).read_bytes() for path in protected} == protected


def test_writes_into_the_hostile_project_stay_inside_and_protected_files_stay_as_they_are(
    unharmed: Path, tmp_path: Path
) -> None:
    project = unharmed / "project"
    targets = [f"links/{name}" for name in build_hostile.LINKS] + [
        f"links/{name}/new.txt" for name in build_hostile.LINKS
    ]
    targets += [
        ".git/config",
        ".git/hooks/pre-push",
        "worktree/.git",
        ".gemcode.toml",
        "sitecustomize.py",
        "kinds/fifo",
    ]
    targets += ["kinds/hard.txt", "../outside/new.txt", "deep/../../outside/new.txt"]
    with bench_on(project, tmp_path / "state") as tools:
        tools.turn.mode = Mode.ALL
        for path in targets:
            assert not timed(tools, "write_file", {"path": path, "content": "x\n", "mode": "append"}).ok, path
        assert timed(tools, "write_file", {"path": "new/file.txt", "content": "x\n"}).ok
    assert not (unharmed / "outside" / "new.txt").exists()


def test_the_whole_hostile_project_is_listed_and_searched_within_bounds(unharmed: Path, tmp_path: Path) -> None:
    with bench_on(unharmed / "project", tmp_path / "state") as tools:
        seen: list[str] = []
        notes: list[str] = []
        after: dict[str, Any] = {}
        for _ in range(20):
            page = timed(tools, "list_files", after).response["output"]
            seen += page["files"]
            notes += page.get("notes", [])
            assert all(name.isprintable() or "\u202e" in name or "\u200b" in name for name in page["files"])
            if "next" not in page:
                break
            after = {"after": page["next"]}
        assert len(seen) == len(set(seen)) > 1_500 and any("too deep" in note for note in notes)
        assert not [name for name in seen if name.startswith((".git/", "sitecustomize"))]
        found = timed(tools, "search_files", {"pattern": build_hostile.SECRET}).response["output"]
        assert found["matches"] == []
        assert any("secrets" in note for note in found["notes"])


def test_the_hostile_project_sets_nothing(unharmed: Path, tmp_path: Path) -> None:
    settings = config.load(unharmed / "project", {"GEMCODE_HOME": str(tmp_path)}, {})
    with app.open_project(settings, "s") as project:
        assert replace(project.settings, warnings=()) == settings
        told = " ".join(project.notices)
        for name in ("base_url", "api_key", "approve", "read_bytes"):
            assert repr(name) in told
        assert "evil.example" not in told


@pytest.mark.parametrize("way", ["as a module", "with PYTHONPATH", "installed"])
def test_the_program_loads_no_trap_module(unharmed: Path, tmp_path: Path, way: str) -> None:
    project = unharmed / "project"
    command = [sys.executable, "-m", "gemcode", "tools"]
    environment = {**os.environ, "GEMCODE_HOME": str(tmp_path)}
    script = Path(sys.executable).parent / "gemcode"
    if not _is_installed():
        pytest.skip("gemcode is not installed for this Python")
    if way == "installed":
        if not script.exists():
            pytest.skip("the command is not installed beside this Python")
        command = [str(script), "tools"]
    elif way == "with PYTHONPATH":
        # What Python itself loads before any program (sitecustomize) is not ours to prevent.
        clean = tmp_path / "path"
        clean.mkdir()
        for name in set(build_hostile.TRAPS) - {"sitecustomize.py", "usercustomize.py", "re.py", "typing.py"}:
            (clean / name).write_text("raise SystemExit('a trap module was loaded')")
        environment["PYTHONPATH"] = str(clean)
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0 and "list_files" in done.stdout, done.stderr
    assert not (unharmed / "outside" / "TRAPPED").exists()


def _is_installed() -> bool:
    command = [sys.executable, "-I", "-c", "import gemcode, typer"]
    return subprocess.run(command, cwd="/", capture_output=True, check=False).returncode == 0


def test_it_can_be_built_by_hand(tmp_path: Path) -> None:
    command = [sys.executable, str(FIXTURES / "build_hostile.py"), str(tmp_path / "place")]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0 and (tmp_path / "place/project/links/passwd").is_symlink()
    finally:
        build_hostile.demolish(tmp_path / "place")
