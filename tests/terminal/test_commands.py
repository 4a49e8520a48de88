"""The slash commands, without a terminal."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gemcode.agent.errors import UsageError
from gemcode.agent.loop import Agent
from gemcode.agent.persona import Persona
from gemcode.agent.policy import Mode
from gemcode.agent.registry import ToolRegistry
from gemcode.agent.tool import decline_unasked
from gemcode.terminal.commands import COMMANDS, Ledger, _rows, find_command
from gemcode.terminal.paint import width
from gemcode.terminal.session import ReplSession, SavedSession
from gemcode.terminal.view import About
from tests.scripted import ScriptedModel
from tests.terminal.program import services, to_message

WANTED = "help model approve tools diff undo restore history cost context compact clear resume save copy doctor quit"


class Desk:
    """Takes lines from a list; work runs to its end."""

    def __init__(self, *lines: str) -> None:
        agent = Agent(ScriptedModel(), ToolRegistry([]), Persona("scripted", lambda mode: ""), decline_unasked)
        self.session = ReplSession(agent, services(), lambda: About("1", "scripted"), to_message)
        self.ledger = Ledger()
        self.lines = list(lines)
        self.copied = ""

    async def ask_line(self, question: str) -> str:
        return self.lines.pop(0)

    def copy_through_terminal(self, text: str) -> bool:
        self.copied = text
        return True

    async def run_work(self, doing: str, work: Callable[[], Awaitable[str]]) -> str | None:
        return None


def run(desk: Desk, text: str) -> str:
    name, _, argument = text.partition(" ")
    return asyncio.run(find_command(name).run(desk, argument))


def test_every_promised_command_is_there() -> None:
    assert [name.removeprefix("/") for name in COMMANDS] == WANTED.split(" ")


@pytest.mark.parametrize(("typed", "found"), [("/mod", "/model"), ("/quit", "/quit"), ("/q", "/quit")])
def test_a_unique_beginning_is_enough(typed: str, found: str) -> None:
    assert find_command(typed).name == found


@pytest.mark.parametrize(
    ("typed", "hint"), [("/modle", "/model"), ("/co", "/cost or /context"), ("/xyzzy", "/help lists"), ("/", "/help")]
)
def test_an_unknown_command_names_the_nearest(typed: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_command(typed)
    assert hint in caught.value.hint


def test_the_mode_is_set_and_said() -> None:
    desk = Desk()
    for mode in Mode:
        assert run(desk, f"/approve {mode.value}").startswith(f"approve: {mode.value}")
        assert desk.session.conversation.mode is mode
    with pytest.raises(UsageError):
        run(desk, "/approve yes")


def test_resume_takes_a_number_an_id_or_nothing() -> None:
    assert run(Desk("1"), "/resume") == "Resumed 7f3k."
    assert run(Desk("abcd"), "/resume") == "Resumed abcd."
    assert run(Desk(""), "/resume") == "Nothing changed."
    assert run(Desk(), "/resume 7f3k") == "Resumed 7f3k."
    empty = Desk()
    empty.session = replace(empty.session, services=replace(services(), sessions=list))
    assert run(empty, "/resume") == "No other session is saved in this project yet."


def test_copy_uses_the_terminal_where_no_program_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    desk = Desk()
    desk.ledger.answer = "the answer"
    assert "OSC 52" in run(desk, "/copy")
    assert desk.copied == "the answer"


BLOCKS = "Two:\n\n```python\na = 1\n\nb = 2\n```\n\n- item\n  ~~~\n  indented ``` text\n  ~~~\n\n````\nopen ``` end\n"


@pytest.mark.parametrize(
    ("number", "code"), [(1, "a = 1\n\nb = 2\n"), (2, "indented ``` text\n"), (3, "open ``` end\n")]
)
def test_copy_takes_the_nth_code_block(number: int, code: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    desk = Desk()
    desk.ledger.answer = BLOCKS
    assert run(desk, f"/copy {number}").startswith(f"Code block {number} ")
    assert desk.copied == code


@pytest.mark.parametrize("which", ["0", "4", "two"])
def test_copy_says_how_many_code_blocks_there_are(which: str) -> None:
    desk = Desk()
    desk.ledger.answer = BLOCKS
    with pytest.raises(UsageError, match="3 code blocks"):
        run(desk, f"/copy {which}")


def test_over_ssh_the_clipboard_is_that_of_the_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pbcopy").write_text("#!/bin/sh\ncat > /dev/null\n")
    (tmp_path / "pbcopy").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    desk = Desk()
    desk.ledger.answer = "the answer"
    assert "pbcopy" in run(desk, "/copy")
    desk.session = replace(desk.session, environ={"SSH_CONNECTION": "1 2 3 4"})
    assert "OSC 52" in run(desk, "/copy")


def test_cost_tells_and_limits() -> None:
    desk = Desk()
    desk.session.conversation.spent, desk.ledger.turns = 0.0123, 1
    assert run(desk, "/cost") == "Spent $0.01 in 1 turn."
    desk.session.conversation.spent = None
    assert "unknown" in run(desk, "/cost")
    assert run(desk, "/cost $2") == "Limit: $2.00"
    for amount in ("nan", "inf", "-1", "much", "1.0.0"):
        with pytest.raises(UsageError, match="not an amount"):
            run(desk, f"/cost {amount}")


def test_the_others_answer() -> None:
    desk = Desk()
    for typed, answer in (
        ("/model gemini-x", "Model: gemini-x"),
        ("/tools", "read_file      Reads."),
        ("/tools stats", "tool  calls"),
        ("/diff", "no changes"),
        ("/restore k3f9", "Restored k3f9."),
        ("/history", "w1 cart.py"),
        ("/context", "1k of 1M tokens"),
        ("/clear", "New conversation."),
        ("/doctor", "all well"),
        ("/compact", "Cancelled. The conversation is as it was."),
        ("/quit", ""),
    ):
        assert run(desk, typed) == answer
    assert desk.ledger.leaving


def test_the_columns_of_saved_sessions_hold_for_wide_letters() -> None:
    titles = ["why does the total differ from the sum?", "合計が違う理由を説明してください、お願いします", "short"]
    rows = _rows([SavedSession(f"id{n}", "14:02 today", title, 6, 2) for n, title in enumerate(titles)]).split("\n")
    assert {width(row[: row.index("6 turns")]) for row in rows} == {47}
    assert rows[1].startswith("  2  14:02 today   合計が違う理由を説明してく")
