"""Programs of the person, lines from a descriptor, nested signal handlers, linear questions."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from gemcode.agent.errors import UsageError
from gemcode.agent.events import Notice, StepFinished, StepStarted, ToolStarted
from gemcode.agent.messages import ToolCall, Usage
from gemcode.agent.model import Finish, FinishKind, Retrying, TextDelta
from gemcode.terminal import programs
from gemcode.terminal.approval import Key
from gemcode.terminal.linear import LinearFront, LineReader
from gemcode.terminal.look import Look
from gemcode.terminal.paint import line
from gemcode.terminal.plainview import PlainView
from gemcode.terminal.tty import Modes, is_terminal, on_signal


def test_lines_are_read_from_a_pipe_until_its_end() -> None:
    reader, writer = os.pipe()
    os.write(writer, "eins\r\nzwei ü\nlast".encode())
    os.close(writer)

    async def run() -> list[str]:
        lines = LineReader(reader)
        found = [await lines.read(), await lines.read(), await lines.read()]
        with pytest.raises(EOFError):
            await lines.read()
        return found

    assert asyncio.run(run()) == ["eins", "zwei ü", "last"]
    os.close(reader)


def test_lines_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_text("one\ntwo\n")
    descriptor = os.open(path, os.O_RDONLY)

    async def run() -> list[str]:
        lines = LineReader(descriptor)
        return [await lines.read(), await lines.read()]

    assert asyncio.run(run()) == ["one", "two"]
    os.close(descriptor)


def test_without_a_terminal_every_question_is_answered_by_stop() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"y\ny\n")

    async def editor(name: str, data: bytes) -> bytes:
        raise AssertionError

    async def run() -> list[str | Key]:
        front = LinearFront(Modes(reader), Look(), editor)
        return [await front.key(line("Write?"), "yn"), await front.text(line("Why?"))]

    assert asyncio.run(run()) == [Key.STOP, Key.STOP]
    os.close(reader)
    os.close(writer)
    assert not is_terminal(reader) and not is_terminal(-1)


def test_signal_handlers_nest_and_the_first_state_comes_back() -> None:
    heard: list[str] = []
    before = signal.getsignal(signal.SIGUSR1)

    async def poke() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        await asyncio.sleep(0.05)

    async def run() -> None:
        with on_signal(signal.SIGUSR1, lambda: heard.append("outer")):
            await poke()
            with on_signal(signal.SIGUSR1, lambda: heard.append("inner")):
                await poke()
            await poke()

    asyncio.run(run())
    assert heard == ["outer", "inner", "outer"]
    assert signal.getsignal(signal.SIGUSR1) == before


def editor_script(tmp_path: Path, body: str) -> dict[str, str]:
    script = tmp_path / "my editor.sh"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    return {"EDITOR": f"'{script}' --wait"}


def test_the_editor_gets_the_bytes_and_gives_them_back_exactly(tmp_path: Path) -> None:
    environ = editor_script(tmp_path, 'test "$1" = --wait && test "${2##*.}" = py && printf "\\377\\r\\n" >> "$2"')
    assert asyncio.run(programs.edit("a/../b\n.py", b"x\x00", environ)) == b"x\x00\xff\r\n"


def test_an_editor_that_fails_or_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="ended with code 3"):
        asyncio.run(programs.edit("a.py", b"", editor_script(tmp_path, "exit 3")))
    with pytest.raises(UsageError, match="could not be started"):
        asyncio.run(programs.edit("a.py", b"", {"EDITOR": "no-such-editor-here"}))


def test_the_clipboard_program_gets_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "wl-copy"
    copy.write_text(f"#!/bin/sh\ncat > {tmp_path}/copied\n")
    copy.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert asyncio.run(programs.copy("text ü", {"WAYLAND_DISPLAY": "w"})) == "wl-copy"
    assert (tmp_path / "copied").read_text() == "text ü"


def test_without_a_clipboard_program_nothing_is_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert asyncio.run(programs.copy("text", {"DISPLAY": ":0"})) == ""


def test_a_plain_view_prints_whole_lines_and_tells_that_it_still_works() -> None:
    answer: list[str] = []
    told: list[str] = []
    view = PlainView(answer.append, told.append, Look(), lambda: 80)
    view(StepStarted(1, "mod\x1bel"))
    view.tick()
    assert told == []
    view.interval = 0
    view.tick()
    assert told.pop() == "· waiting for mod\\x1bel  0s\n"
    view(TextDelta("one\r\ntw"))
    view(TextDelta("o"))
    assert answer == ["one\n"]
    view(Retrying("broke", 1, 1, 3))
    assert answer == ["one\n", "two\n"]
    assert told == ["· The text above was cut off and is void.\n", "! broke. Try 2 of 3 in 1 s  (Ctrl-C cancels)\n"]
    view(TextDelta("again"))
    view(Notice("note"))
    view(ToolStarted(ToolCall("c", "read_file", {}), "a"))
    view(StepFinished(1, "", True, Finish(FinishKind.COMPLETE, "STOP"), Usage()))
    assert answer[2:] == ["again\n"]


def test_a_shell_command_is_shown_and_its_output_is_kept_without_colours(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    code, output = asyncio.run(programs.run_shell("printf '\\033[31mred\\033[0m\\n'; exit 3", {"SHELL": "/bin/sh"}))
    assert (code, output) == (3, "red\n")
    assert capfdbinary.readouterr().out == b"\x1b[31mred\x1b[0m\n"


def test_of_a_long_output_the_end_is_kept(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    code, output = asyncio.run(programs.run_shell("seq 1 100000", {"SHELL": "/bin/sh"}))
    assert code == 0
    assert output.endswith("\n100000\n") and len(output) == programs.KEPT_BYTES
    assert capfdbinary.readouterr().out.startswith(b"1\n2\n")


def test_a_child_left_in_the_background_does_not_hold_the_prompt(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert asyncio.run(programs.run_shell("sleep 20 & echo done", {"SHELL": "/bin/sh"})) == (0, "done\n")
