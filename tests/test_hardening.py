"""The process protects itself: no core, no debugger, no stack on the screen, no key in a child."""

import asyncio
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from gemcode.agent.redaction import KEY_VARIABLES
from gemcode.terminal import programs

KEY = "not-a-shape-that-anything-knows-0123"
SHAPED = "AIza" + "Q" * 35


def run(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", f"from gemcode.hardening import harden\nharden()\n{code}", *arguments]
    env = {name: value for name, value in os.environ.items() if name not in KEY_VARIABLES} | environment
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=60)


def test_there_is_no_core_file_and_a_child_may_want_one() -> None:
    done = run("import resource; print(resource.getrlimit(resource.RLIMIT_CORE))")
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    assert done.stdout == f"(0, {hard})\n"


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_DUMPABLE is Linux's")
def test_the_process_is_not_dumpable_and_its_child_is() -> None:
    ask = "import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
    done = run(f"{ask}\nimport subprocess, sys\nsubprocess.run([sys.executable, '-c', {ask!r}])")
    assert sorted(done.stdout.split()) == ["0", "1"]


def test_the_umask_stays_the_user_s() -> None:
    before = os.umask(0o027)
    try:
        assert run("import os; print(oct(os.umask(0)))").stdout == "0o27\n"
    finally:
        os.umask(before)


def test_the_unexpected_is_one_sentence_and_a_hint() -> None:
    done = run("local = 'kept to itself'\nraise ValueError('two\\nlines \\x1b[31m')")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == (
        "✗ gemcode met an unexpected error (ValueError: two lines \\x1b[31m). Run it with --verbose for details.\n"
    )
    assert run("raise KeyError").stderr.startswith("✗ gemcode met an unexpected error (KeyError). ")


@pytest.mark.parametrize("flag", ["-v", "--verbose"])
def test_the_stack_is_shown_on_demand_without_variables_or_escape_sequences(flag: str) -> None:
    done = run("local = 'kept to ' + 'itself'\nraise ValueError('\\x1b[31m')", flag)
    assert done.returncode == 1 and "Traceback" in done.stderr and "ValueError: \\x1b[31m" in done.stderr
    assert "kept to itself" not in done.stderr and "\x1b" not in done.stderr


@pytest.mark.parametrize("variable", KEY_VARIABLES)
@pytest.mark.parametrize("flags", [(), ("-v",)], ids=["short", "verbose"])
def test_no_key_is_shown_neither_ours_nor_one_that_looks_like_one(variable: str, flags: tuple[str, ...]) -> None:
    code = "import os, sys\ntry:\n    raise OSError(os.environ[sys.argv[1]])\n"
    code += "except OSError as error:\n    raise ValueError(f'{error} {sys.argv[2]}') from error"
    done = run(code, variable, SHAPED, *flags, **{variable: f" {KEY} "})
    assert KEY not in done.stderr and SHAPED not in done.stderr and "[removed]" in done.stderr


def test_a_very_long_message_is_cut() -> None:
    assert len(run("raise ValueError('x' * 100_000)").stderr) < 400


def test_an_interrupt_is_not_an_error_to_explain() -> None:
    done = run("raise KeyboardInterrupt")
    assert done.stderr == "" and done.returncode != 0


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_program_hardens_itself() -> None:
    command = [sys.executable, "-m", "gemcode", "simulator"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and "simulator on" in process.stdout.readline()
            limits = Path(f"/proc/{process.pid}/limits").read_text()
        finally:
            process.terminate()
    assert next(line for line in limits.splitlines() if "core" in line).split()[4] == "0"


def test_no_program_that_is_started_gets_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in KEY_VARIABLES:
        monkeypatch.setenv(variable, KEY)
    monkeypatch.setenv("GEMCODE_TEST_OTHER", "kept")
    output = tmp_path / "environment"
    assert asyncio.run(programs.run_shell(f"env > {output}", {"SHELL": "/bin/sh"})) == (0, "")
    assert KEY not in output.read_text() and "GEMCODE_TEST_OTHER=kept" in output.read_text()
    editor = tmp_path / "editor"
    editor.write_text(f'#!/bin/sh\nenv > {output}.2\necho changed > "$1"\n')
    editor.chmod(0o700)
    assert asyncio.run(programs.edit("a.txt", b"x", {"EDITOR": str(editor)})) == b"changed\n"
    assert KEY not in Path(f"{output}.2").read_text()
    clipboard = tmp_path / "wl-copy"
    clipboard.write_text(f"#!/bin/sh\nenv > {output}.3\ncat > /dev/null\n")
    clipboard.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert asyncio.run(programs.copy("text", {"WAYLAND_DISPLAY": "w"})) == "wl-copy"
    assert KEY not in Path(f"{output}.3").read_text()
