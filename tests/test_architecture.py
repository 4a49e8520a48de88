"""The house rules of docs/decisions/001, kept by reading the syntax trees: who imports whom, who touches what."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "gemcode"
MODULES = sorted(PACKAGE.rglob("*.py"))

# room → the gemcode modules it may import (prefixes). Its own room is always allowed.
MAY_IMPORT = {
    "agent": (),
    "workspace": ("gemcode.agent.errors",),
    "tools": ("gemcode.agent", "gemcode.workspace"),
    "gemini": ("gemcode.agent",),
    # The confirm is drawn from the bytes, so it needs the pure diff; neither module does any I/O.
    "terminal": ("gemcode.agent", "gemcode.workspace.diff", "gemcode.workspace.text"),
    "gateway": ("gemcode.agent", "gemcode.gemini"),
    "simulator": (),
    "audit": ("gemcode.agent", "gemcode.workspace.osfs", "gemcode.workspace.locks"),
    "config": ("gemcode.agent", "gemcode.agent.bounds"),
}
EVERYWHERE = ("gemcode.frozen",)  # how values are made, with no other knowledge
# library → the only places that may import it.
OWNERS = {
    "google": ("gemini",),
    "httpx2": ("gemini",),
    "rich": ("terminal",),
    "pygments": ("terminal",),
    "prompt_toolkit": ("terminal",),
    "typer": ("cli",),
    "click": (),
    "h11": ("simulator",),
    "starlette": ("gateway",),
    "uvicorn": ("gateway",),
    "re2": ("tools", "workspace/wildmatch.py"),
    "ctypes": ("workspace", "hardening"),  # hardening: prctl has no other way in
    "subprocess": ("terminal/programs.py",),
    "shutil": (),
    "pickle": (),
}
# Modules past 400 lines, functions past 50 lines or with more than 6 parameters: each a visible decision.
LONG_MODULES: dict[str, str] = {}
LONG_FUNCTIONS: dict[str, str] = {}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def room(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else path.stem


def name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def calls(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call):
            yield node.lineno, ast.unparse(node.func)


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_room_imports_only_what_it_may(path: Path) -> None:
    here = room(path)
    if here not in MAY_IMPORT:
        return
    for imported in imports(path):
        if imported.startswith("gemcode.") and not imported.startswith((f"gemcode.{here}", *EVERYWHERE)):
            allowed = MAY_IMPORT[here]
            assert any(imported == prefix or imported.startswith(prefix + ".") for prefix in allowed) or any(
                prefix.startswith(imported) for prefix in allowed
            ), f"{name(path)} imports {imported}"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_nothing_imports_the_composition_root_or_the_command_line(path: Path) -> None:
    allowed = {"commands": "gemcode.app", "cli": "gemcode.app", "__main__": "gemcode.cli"}.get(room(path), "nothing")
    above = {module for module in imports(path) if module.split(".")[:2] in (["gemcode", "app"], ["gemcode", "cli"])}
    assert not {module for module in above if not module.startswith(allowed)}


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_library_is_imported_only_by_its_owner(path: Path) -> None:
    for imported in imports(path):
        library = imported.split(".")[0]
        if library in OWNERS:
            assert any(owner in (room(path), name(path)) for owner in OWNERS[library]), (
                f"{name(path)} imports {imported}"
            )


def test_there_are_no_import_cycles() -> None:
    graph = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): {
            module for module in imports(path) if module.startswith("gemcode.")
        }
        for path in MODULES
    }
    state: dict[str, str] = {}

    def visit(module: str, trail: tuple[str, ...]) -> None:
        if state.get(module) == "done" or module not in graph:
            return
        assert state.get(module) != "open", f"cycle: {' → '.join((*trail, module))}"
        state[module] = "open"
        for imported in graph[module]:
            if imported != module:
                visit(imported, (*trail, module))
        state[module] = "done"

    for module in graph:
        visit(module, ())


PROJECT_FILE_CALLS = ("open", "os.open", "os.path.realpath", "os.replace", "os.rename", "os.unlink", "os.remove")
PATH_METHODS = (".read_text", ".read_bytes", ".write_text", ".write_bytes", ".unlink", ".rename", ".open", ".resolve")
# These open files of the user's own (configuration, state, a scenario named on the command line), never the project's.
OPENS_OWN_FILES = {
    "commands/demo.py",
    "commands/desk.py",
    "commands/serve.py",
    "commands/stats.py",
    "config.py",
    "audit.py",
    "agent/session.py",
    "recording.py",
    "cli.py",
    "app.py",
    "simulator/scenario.py",
    "gateway/config.py",
    "gateway/store.py",
    "terminal/programs.py",
    "terminal/safe.py",  # /dev/null, in the place of a stdout that went away
}


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_project_files_are_opened_only_in_the_workspace(path: Path) -> None:
    if room(path) == "workspace" or name(path) in OPENS_OWN_FILES:
        return
    for line, called in calls(path):
        bad = called in PROJECT_FILE_CALLS or (called.endswith(PATH_METHODS) and not called.startswith("self."))
        own = called.split(".")[0] in ("root", "osfs") or ".root." in called
        assert own or not bad, f"{name(path)}:{line} calls {called}"


@pytest.mark.parametrize("path", [p for p in MODULES if room(p) == "workspace"], ids=name)
def test_the_workspace_makes_its_system_calls_through_one_module(path: Path) -> None:
    if name(path) == "workspace/osfs.py":
        return
    system_calls = "read write rename replace unlink remove mkdir makedirs link fsync stat fstat scandir listdir close"
    direct = {"open", "os.open", *(f"os.{call}" for call in system_calls.split())}
    for line, called in calls(path):
        assert called not in direct, f"{name(path)}:{line} calls {called}: use osfs"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_only_the_terminal_writes_to_the_screen(path: Path) -> None:
    if room(path) == "terminal":
        return
    for line, called in calls(path):
        assert called not in ("print", "sys.stdout.write", "sys.stderr.write", "input"), f"{name(path)}:{line} {called}"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_nothing_dangerous_is_called(path: Path) -> None:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            compiles = (name(path), called) == ("frozen.py", "exec")  # an __init__ of field names, as dataclasses does
            assert compiles or called not in ("eval", "exec", "os.system", "os.popen"), f"{name(path)}:{node.lineno}"
            for keyword in node.keywords:
                value = ast.unparse(keyword.value)
                assert (keyword.arg, value) not in (("shell", "True"), ("verify", "False")), (
                    f"{name(path)}:{node.lineno}"
                )


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_modules_and_functions_stay_small(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= 400 or name(path) in LONG_MODULES, f"{name(path)} has {lines} lines"
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            count = len([argument for argument in parameters if argument.arg not in ("self", "cls")])
            where = f"{name(path)}:{node.name}"
            assert length <= 50 or where in LONG_FUNCTIONS, f"{where} has {length} lines"
            assert count <= 6 or where in LONG_FUNCTIONS, f"{where} has {count} parameters"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(tree(path)), f"{name(path)} has no docstring"


def test_importing_every_module_writes_nothing_and_starts_nothing() -> None:
    names = [".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for p in MODULES]
    names = [module for module in names if not module.endswith("__main__")]
    code = f"import threading; [__import__(name) for name in {names!r}]; assert threading.active_count() == 1"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
