"""`gemcode history`, `undo` and `restore`: the write journal, seen and turned back. Each change is shown first."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from gemcode import app
from gemcode.agent.errors import ExitCode, GemcodeError, ToolError, UsageError
from gemcode.agent.messages import JsonObject, ToolCall, ToolResult
from gemcode.agent.policy import Effect
from gemcode.agent.tool import ApprovalRequest, Approved, Approver, FileChange
from gemcode.terminal.safe import escape, write_stderr, write_stdout
from gemcode.terminal.tty import input_descriptor, is_terminal
from gemcode.tools.workbench import Workbench, sensitivity
from gemcode.workspace import names, writer
from gemcode.workspace import undo as journal
from gemcode.workspace.diff import unified
from gemcode.workspace.journal import WriteRecord
from gemcode.workspace.proposal import Proposal, snapshot


def history(options: app.Options, path: str, *, diff: bool) -> int:
    with app.open_project(app.load_settings(options), app.new_session_id()) as project:
        text = history_text(project.bench, path, diff=diff)
    write_stdout(text)
    return ExitCode.OK


def undo(options: app.Options, write: str, *, turn: bool, yes: bool) -> int:
    with app.open_project(app.load_settings(options), app.new_session_id()) as project:
        plan = _plan(project.bench, write, turn=turn)
        for conflict in plan.conflicts:
            write_stderr(f"! {escape(conflict.message)}\n")
        if plan.conflicts:
            return ExitCode.WRITE_REFUSED
        return _carry_out(options, project, plan.proposals, plan.reason, yes=yes)


def restore(options: app.Options, write: str, *, yes: bool) -> int:
    with app.open_project(app.load_settings(options), app.new_session_id()) as project:
        try:
            proposal = journal.restore(project.root, project.store, write)
        except ToolError as error:
            raise _explain(error) from None
        return _carry_out(options, project, [proposal], f"restore of {write}", yes=yes)


def undo_now(project: app.Project, argument: str) -> str:
    """`/undo [ID|turn]`: the person typed it, so it is done, or said why not."""
    try:
        plan = _plan(project.bench, "" if argument == "turn" else argument, turn=argument == "turn")
    except UsageError as error:
        raise UsageError(error.message, "See the ids with: /history") from None
    if plan.conflicts:
        raise GemcodeError(plan.conflicts[0].message, "See: /history")
    told, done, failed = [], 0, None
    for proposal in plan.proposals:
        try:
            told.append(_write(project, proposal, plan.reason))
            done += 1
        except GemcodeError as error:
            told.append(f"✗ {error.message}")
            failed = error
    if not done:
        if failed:
            raise failed
        return "Nothing to undo: the files already are as they were."
    return "\n".join([*told, "Undo this: /undo"])


async def restore_now(project: app.Project, write: str, approve: Approver) -> str:
    """`/restore ID`: the change is shown and asked about, since it may take later work back."""
    try:
        proposal = journal.restore(project.root, project.store, write)
    except ToolError as error:
        raise UsageError(error.message, "See the ids with: /history") from None
    confirmed = await _confirm(approve, proposal, f"restore of {write}")
    return _write(project, confirmed, f"restore of {write}") if confirmed else "Nothing was written."


def history_text(bench: Workbench, path: str = "", *, diff: bool = False) -> str:
    """The writes, oldest first, so that the newest stands where the eye is."""
    records = list(reversed(bench.store.history(path or None)))
    if not records:
        return "No writes in this project yet.\n" if not path else f"No writes to {escape(path, single_line=True)}.\n"
    lines = []
    for record in records:
        lines.append(_line(record))
        if diff:
            lines.append(_diff(bench, record))
    return "\n".join(lines) + "\n"


def _plan(bench: Workbench, write: str, *, turn: bool) -> journal.UndoPlan:
    try:
        if not turn:
            return journal.undo(bench.root, bench.store, write or None)
        records = [bench.store.find(write)] if write else [r for r in bench.store.history() if r.happened][:1]
        return journal.undo(bench.root, bench.store, turn=records[0].intent.turn if records else "")
    except ToolError as error:
        raise _explain(error) from None


def _explain(error: ToolError) -> GemcodeError:
    return UsageError(error.message, "See the ids with: gemcode history")


def _carry_out(
    options: app.Options, project: app.Project, proposals: Sequence[Proposal], reason: str, *, yes: bool
) -> int:
    terminal = is_terminal(1) and is_terminal(input_descriptor())
    if not yes and not terminal:
        raise UsageError("Without a terminal this needs --yes.", "Look first with: gemcode history --diff")
    code = ExitCode.OK
    for proposal in proposals:
        confirmed = proposal if yes else asyncio.run(_confirm(app.terminal_approver(options), proposal, reason))
        if confirmed is None:
            write_stderr(f"✗ {escape(proposal.path, single_line=True)}: declined. Nothing was written.\n")
            code = ExitCode.WRITE_REFUSED
            continue
        try:
            write_stdout(_write(project, confirmed, reason) + "\n")
        except GemcodeError as error:
            write_stderr(f"✗ {escape(error.message)}\n")
            code = ExitCode.WRITE_REFUSED
    return code


async def _confirm(approve: Approver, proposal: Proposal, reason: str) -> Proposal | None:
    call = ToolCall("undo", reason, {"path": proposal.path})
    answer = await approve(ApprovalRequest(call, as_change(proposal), in_turn=False))
    if isinstance(answer, Approved) and isinstance(answer.preview, FileChange):
        return replace(proposal, after=answer.preview.after)
    return None


def as_change(proposal: Proposal) -> FileChange:
    path = proposal.path
    return FileChange(path, proposal.before.data, proposal.after, sensitivity(path), names.reason(path))


def _write(project: app.Project, proposal: Proposal, reason: str) -> str:
    """Write, with an entry in the audit log before and after, as for every other write."""
    bench = project.bench
    call = ToolCall("", reason.split(" ", 1)[0], {"path": proposal.path, "reason": reason})
    try:
        [entry] = project.audit.intents([(call, Effect.WRITE)])
    except OSError as error:
        raise GemcodeError(
            f"Nothing was written: the audit log can't be ({error.strerror}).", "See: gemcode doctor"
        ) from None
    try:
        result = writer.write(bench.root, bench.store, proposal, turn=bench.turn, reason=reason)
    except ToolError as error:
        _settle(project, entry, call, {"error": error.as_json()})
        raise GemcodeError(error.message, "See: gemcode history") from None
    _settle(project, entry, call, {"output": {"path": proposal.path, "action": result.action}})
    done = {"created": "is back", "modified": "is as it was", "deleted": "is removed"}[result.action]
    notes = "".join(f"\n· {note}" for note in result.notes)
    return escape(f"✓ {proposal.path} {done} ({reason}, now {result.id}).{notes}")


def _settle(project: app.Project, entry: object, call: ToolCall, response: JsonObject) -> None:
    with contextlib.suppress(OSError):  # an intent without outcome stays visible in the log
        project.audit.outcome(entry, call, "approved", ToolResult("", call.name, response))


def _line(record: WriteRecord) -> str:
    when = datetime.fromtimestamp(record.time).strftime("%Y-%m-%d %H:%M:%S")
    text = f"{record.id}  {when}  {record.action:8} {record.path}  {record.intent.reason}"
    return escape(text, single_line=True)


def _diff(bench: Workbench, record: WriteRecord) -> str:
    try:
        old = bench.store.read_object(record.intent.old) if record.intent.old else b""
        new = _content(bench, record) if record.intent.new else b""
    except ToolError:
        return "  (what it wrote is neither kept nor there any more)"
    return escape("\n".join("  " + line for line in unified(old, new).as_text().splitlines()))


def _content(bench: Workbench, record: WriteRecord) -> bytes:
    """What a write left: in the file still, or in the store because a later write replaced it."""
    current = snapshot(bench.root, record.path)
    if current.data is not None and current.hash == record.intent.new:
        return current.data
    return bench.store.read_object(str(record.intent.new))
