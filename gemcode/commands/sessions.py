"""`gemcode sessions`: the saved conversations of this project."""

import json
import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import Literal

from gemcode import app
from gemcode.agent.errors import UsageError
from gemcode.agent.messages import Message, ModelMessage, UserMessage
from gemcode.agent.session import SessionInfo, SessionStore
from gemcode.agent.transcript import Committed, Entry, Withdrawn
from gemcode.terminal.look import terminal_size
from gemcode.terminal.paint import cut, width
from gemcode.terminal.safe import escape, write_stdout
from gemcode.terminal.tty import is_terminal


def run(options: app.Options, action: Literal["list", "show", "delete"], session: str, *, as_json: bool) -> int:
    with app.open_project(app.load_settings(options), app.new_session_id()) as project:
        if action == "list":
            if session:
                raise UsageError("sessions list takes no id.", f"To see one of them: gemcode sessions show {session}")
            return _list(project.sessions, as_json=as_json)
        if not session:
            raise UsageError(f"sessions {action} needs the id of a session.", "See the ids with: gemcode sessions")
        if action == "delete":
            write_stdout(f"Session {project.sessions.delete(session)} is deleted.\n")
            return 0
        return _show(project.sessions, session)


def _list(store: SessionStore, *, as_json: bool) -> int:
    infos = store.infos()
    if as_json:
        write_stdout(json.dumps([asdict(info) for info in infos], indent=2) + "\n")
        return 0
    if not infos:
        write_stdout("No sessions in this project yet.\n")
    for info in infos:
        write_stdout(_row(info, terminal_size().columns if is_terminal(1) else None) + "\n")
    return 0


def _row(info: SessionInfo, columns: int | None) -> str:
    """One line of the list. On a terminal it fits: else the model is left out, and the title cut."""
    cost = "" if info.cost_usd is None else f"${info.cost_usd:.2f}"
    turns = f"{info.turns} turn{'' if info.turns == 1 else 's'}"
    files = f"{info.files} file{'' if info.files == 1 else 's'}"
    title = escape(info.title, single_line=True)
    row = f"{info.id:6} {age(info.updated):>12}  {turns:8} {files:7} {cost:>6}  {title}"
    whole = f"{row}{' ' * (40 - width(title))}  {escape(info.model)}"
    return whole if columns is None or width(whole) <= columns else cut(row, columns, "…")


def age(when: float) -> str:
    """How long ago, in the largest unit that fits."""
    seconds = max(0.0, time.time() - when)
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"


def _said(entries: Iterable[Entry]) -> list[tuple[Message, bool]]:
    """Every message of a session in order, and whether it was withdrawn."""
    messages: list[tuple[Message, bool]] = []
    for entry in entries:
        if isinstance(entry, Committed):
            messages.append((entry.message, False))
        elif isinstance(entry, Withdrawn) and messages:
            messages[-1] = (messages[-1][0], True)
    return messages


def _show(store: SessionStore, wanted: str) -> int:
    """What was said, in order; tool calls as one line each. A prompt that was taken back is marked as such."""
    entries = [line.entry for line in store.read(wanted)]
    for message, withdrawn in _said(entries):
        if isinstance(message, UserMessage):
            mark, note = ("~", "· taken back: it got no answer\n") if withdrawn else (">", "")
            write_stdout(f"{mark} " + escape(message.text).replace("\n", "\n  ") + f"\n{note}")
        elif isinstance(message, ModelMessage):
            for call in message.calls:
                write_stdout(f"· {escape(call.name)} {escape(json.dumps(call.args), single_line=True)[:200]}\n")
            if message.text:
                write_stdout(escape(message.text).rstrip("\n") + "\n")
    return 0
