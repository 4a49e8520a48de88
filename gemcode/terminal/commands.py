"""The slash commands: one table, each with its help and an example. What belongs to other rooms is called there."""

import asyncio
import difflib
import functools
import math
import re
import textwrap
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gemcode.agent.errors import UsageError
from gemcode.agent.policy import Mode
from gemcode.frozen import frozen
from gemcode.terminal import programs
from gemcode.terminal.paint import cut, pad
from gemcode.terminal.safe import escape
from gemcode.terminal.session import ReplSession, SavedSession
from gemcode.terminal.view import money, plural


@dataclass(slots=True)
class Ledger:
    """What this REPL has done so far."""

    turns: int = 0
    files: set[str] = field(default_factory=set)
    answer: str = ""
    leaving: bool = False


class Desk(Protocol):
    """What a command may use."""

    session: ReplSession
    ledger: Ledger

    async def ask_line(self, question: str) -> str:
        """One line from the person; "" when they would rather not."""
        ...

    def copy_through_terminal(self, text: str) -> bool: ...

    async def run_work(self, doing: str, work: Callable[[], Awaitable[str]]) -> str | None:
        """Run something that Ctrl-C may end; None when it did. `doing` says what is waited for."""
        ...


@frozen
class Command:
    name: str
    summary: str
    example: str
    run: Callable[[Desk, str], Awaitable[str]]  # gives text for the person, not yet escaped


def find_command(name: str) -> Command:
    """The command by its full name or a unique beginning. Raises UsageError that names the nearest."""
    if name in COMMANDS:
        return COMMANDS[name]
    begins = [known for known in COMMANDS if known.startswith(name)] if len(name) > 1 else []
    if len(begins) == 1:
        return COMMANDS[begins[0]]
    close = begins or difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f"Did you mean {' or '.join(close)}?" if close else "/help lists all commands."
    raise UsageError(f"Unknown command {escape(name, single_line=True)}.", hint)


async def _help(desk: Desk, argument: str) -> str:
    if argument:
        command = find_command("/" + argument.removeprefix("/"))
        return f"{command.name}  {command.summary}\n  e.g. {command.example}"
    rows = [f"{command.name:<10} {command.summary}" for command in COMMANDS.values()]
    return "\n".join([*rows, *_KEYS])


_KEYS = (
    "@path      adds a file to the prompt",
    "!command   runs your own shell command; @! in the next prompt adds its output",
    "Enter sends; Alt-Enter, Ctrl-J or a \\ at the end of the line starts a new line",
    "Ctrl-C cancels a turn or clears the line (Ctrl-Y brings it back); twice leaves",
    "Shift-Tab switches between ask and edits; Ctrl-R searches; Ctrl-X Ctrl-E edits",
    "/help COMMAND shows an example",
)


async def _model(desk: Desk, argument: str) -> str:
    if argument:
        name = await asyncio.to_thread(desk.session.services.use_model, argument)
        return f"Model: {name}"
    active = desk.session.about().model
    rows = await asyncio.to_thread(desk.session.services.models)
    return "\n".join(f"{'>' if name == active else ' '} {name:<28} {about}".rstrip() for name, about in rows)


_MODES = {
    Mode.ASK: "approve: ask. Every write is shown before it happens.",
    Mode.EDITS: "approve: edits. Ordinary writes pass; files that run later and secrets still ask.",
    Mode.ALL: "approve: all. Nothing is asked any more. Every write is still backed up: /undo",
    Mode.NONE: "approve: none. Read-only: the model cannot write. Change: /approve ask",
}


def approve_text(mode: Mode) -> str:
    return _MODES[mode]


async def _approve(desk: Desk, argument: str) -> str:
    if argument:
        try:
            desk.session.conversation.mode = Mode(argument)
        except ValueError:
            raise UsageError(f"There is no approval mode {escape(argument)}.", "Use ask, edits, all or none.") from None
    return approve_text(desk.session.conversation.mode)


async def _tools(desk: Desk, argument: str) -> str:
    if argument == "stats":
        return await asyncio.to_thread(desk.session.services.tool_stats)
    rows = await asyncio.to_thread(desk.session.services.tools)
    return "\n".join(f"{name:<14} {about.splitlines()[0] if about else ''}" for name, about in rows)


async def _cost(desk: Desk, argument: str) -> str:
    if argument:
        try:
            limit = float(argument.removeprefix("$"))
        except ValueError:
            limit = math.nan
        if not 0 <= limit < math.inf:
            raise UsageError(f"{escape(argument)} is not an amount.", "E.g. /cost 1.00")
        return await asyncio.to_thread(desk.session.services.limit_cost, limit)
    spent = desk.session.conversation.spent
    told = "unknown (no price for this model)" if spent is None else money(spent)
    return f"Spent {told} in {plural(desk.ledger.turns, 'turn')}."


async def _compact(desk: Desk, argument: str) -> str:
    work = functools.partial(desk.session.services.compact, argument)
    return await desk.run_work("compacting", work) or "Cancelled. The conversation is as it was."


async def _clear(desk: Desk, argument: str) -> str:
    said = await asyncio.to_thread(desk.session.services.clear)
    desk.ledger.answer = ""
    return said


async def _resume(desk: Desk, argument: str) -> str:
    if not argument:
        saved = await asyncio.to_thread(desk.session.services.sessions)
        if not saved:
            return "No other session is saved in this project yet."
        argument = await desk.ask_line(f"{_rows(saved)}\nNumber, or Enter to stay: ")
        if not argument:
            return "Nothing changed."
        if argument.isdecimal() and 1 <= int(argument) <= len(saved):
            argument = saved[int(argument) - 1].id
    return await asyncio.to_thread(desk.session.services.resume, argument)


def _rows(saved: Sequence[SavedSession]) -> str:
    rows = []
    for number, one in enumerate(saved, 1):
        cost = money(one.cost_usd) if one.cost_usd is not None else ""
        title = pad(cut(escape(one.title, single_line=True), 26), 27)
        model = escape(one.model, single_line=True).removeprefix("gemini-")
        facts = f"{plural(one.turns, 'turn')}  {plural(one.files, 'file')}  {cost}  {model}"
        rows.append(f"{number:>3}  {escape(one.when, single_line=True):<14}{title} {facts}".rstrip())
    return "\n".join(rows)


_code_block = re.compile(r"^ *(`{3,}|~{3,})[^`\n]*\n(.*?)(?:^ *\1[`~]* *$|\Z)", re.MULTILINE | re.DOTALL)


async def _copy(desk: Desk, argument: str) -> str:
    """The last answer, or its nth code block."""
    text, what = desk.ledger.answer, "The last answer"
    if not text:
        raise UsageError("There is no answer to copy yet.")
    if argument:
        blocks = [found[2] for found in _code_block.finditer(text)]
        if not argument.isdecimal() or not 1 <= int(argument) <= len(blocks):
            raise UsageError(
                f"The last answer has {plural(len(blocks), 'code block')}.", "E.g. /copy 1, or /copy alone"
            )
        text, what = textwrap.dedent(blocks[int(argument) - 1]), f"Code block {int(argument)}"
    remote = bool(desk.session.environ.get("SSH_CONNECTION"))  # then only the terminal knows the person's clipboard
    program = "" if remote else await programs.copy(text, desk.session.environ)
    if program:
        return f"{what} is on the clipboard ({program})."
    if desk.copy_through_terminal(text):
        return f"{what} was sent to your terminal's clipboard (OSC 52)."
    raise UsageError("No clipboard program was found.", "Install wl-copy, xclip or xsel, or use /save FILE.")


async def _quit(desk: Desk, argument: str) -> str:
    desk.ledger.leaving = True
    return ""


async def _diff(desk: Desk, argument: str) -> str:
    return await asyncio.to_thread(desk.session.services.diff, argument)


async def _undo(desk: Desk, argument: str) -> str:
    return await asyncio.to_thread(desk.session.services.undo, argument)


async def _restore(desk: Desk, argument: str) -> str:
    if not argument:
        raise UsageError("Which version?", "Name its id: /history lists them.")
    return await desk.session.services.restore(argument)


async def _history(desk: Desk, argument: str) -> str:
    return await asyncio.to_thread(desk.session.services.history, argument)


async def _context(desk: Desk, argument: str) -> str:
    return await asyncio.to_thread(desk.session.services.context)


async def _save(desk: Desk, argument: str) -> str:
    return await asyncio.to_thread(desk.session.services.save, argument)


async def _doctor(desk: Desk, argument: str) -> str:
    return await asyncio.to_thread(desk.session.services.doctor)


COMMANDS = {
    command.name: command
    for command in (
        Command("/help", "this list, or one command with an example", "/help model", _help),
        Command("/model", "show the models, or switch to one", "/model gemini-3.1-pro-preview", _model),
        Command("/approve", "what passes without a question: ask, edits, all, none", "/approve edits", _approve),
        Command("/tools", "the tools the model may call; stats counts the calls", "/tools stats", _tools),
        Command("/diff", "what the session, or its last turn, has changed on disk", "/diff turn", _diff),
        Command("/undo", "undo the last write, one by its id, or the last turn", "/undo turn", _undo),
        Command("/restore", "bring back a version by its id; shown first", "/restore k3f9", _restore),
        Command("/history", "the writes so far, of one file or all", "/history src/cart.py", _history),
        Command("/cost", "what was spent, or set a limit in dollars", "/cost 1.00", _cost),
        Command("/context", "how full the model's context is, and with what", "/context", _context),
        Command("/compact", "replace old turns by a summary; undo takes it back", "/compact undo", _compact),
        Command("/clear", "start a new conversation; the old one stays saved", "/clear", _clear),
        Command("/resume", "go on with a saved conversation", "/resume 7f3k", _resume),
        Command("/save", "save the conversation: Markdown, or JSON by the name", "/save talk.json", _save),
        Command("/copy", "copy the last answer, or its nth code block", "/copy 2", _copy),
        Command("/doctor", "what works here and what does not", "/doctor", _doctor),
        Command("/quit", "leave", "/quit", _quit),
    )
}
