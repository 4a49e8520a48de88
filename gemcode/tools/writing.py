"""From new bytes to a proposal that a person can see, and from a confirmed proposal to the file. Shared by the tools
that write; the only way they do."""

from gemcode.agent.errors import ToolError
from gemcode.agent.events import FileChanged
from gemcode.agent.policy import Sensitivity
from gemcode.agent.tool import Conflict, FileChange, Output, Overtaken, Preview
from gemcode.frozen import frozen
from gemcode.tools.workbench import Workbench, sensitivity
from gemcode.workspace import names, writer
from gemcode.workspace.diff import count_changes
from gemcode.workspace.proposal import Proposal, Snapshot, propose, snapshot


@frozen
class _Token:
    """What the proposal was made from, and what the model asked for: the person may have changed it since."""

    before: Snapshot
    proposed: bytes


def look(bench: Workbench, path: str) -> Snapshot:
    """The file as it is now."""
    return snapshot(bench.root, path, bench.bounds.read_bytes)


def change(bench: Workbench, before: Snapshot, after: bytes) -> FileChange:
    """The proposal. Refused here already: no change at all, and too large a content."""
    propose(before, after, bench.bounds.write_bytes)
    path = before.path
    care, why = sensitivity(path), names.reason(path)
    if care is Sensitivity.ORDINARY and bench.root.in_bare_repository(path):
        care, why = Sensitivity.RUNS_LATER, "belongs to a bare git repository"
    return FileChange(path, before.data, after, care, why, before.missing, token=_Token(before, after))


def commit(bench: Workbench, approved: Preview | None, reason: str) -> Output:
    """Write what was approved, and nothing else."""
    if not isinstance(approved, FileChange) or not isinstance(approved.token, _Token) or approved.after is None:
        raise ToolError("internal", "Nothing was written: the proposal is not one of ours.")
    before, path = approved.token.before, approved.path
    proposal = propose(before, approved.after, bench.bounds.write_bytes)
    try:
        result = writer.write(bench.root, bench.store, proposal, turn=bench.turn, reason=reason)
    except ToolError as error:
        conflict = _conflict(bench, proposal, error)
        if conflict is None:
            raise
        raise Overtaken(error, conflict) from error
    added, removed = count_changes(before.data or b"", approved.after)
    notes = [*result.notes, *bench.store.notices]
    bench.store.notices.clear()
    value: dict[str, object] = {"path": path, "action": result.action, "lines_added": added}
    value["lines_removed"] = removed
    if approved.after == approved.token.proposed:
        bench.known.wrote(path, result.hash)
    else:
        bench.known.wrote(path, None)
        value["note"] = "The user changed your proposal before it was written. Read the file to see what it holds now."
    if result.status == "durability_unknown":
        value["durability"] = "unknown"
        notes.append("written, but the disk did not confirm that it would survive a power cut")
    display = "; ".join([f"{result.action} (+{added} -{removed})", *notes])
    return Output(value, display, FileChanged(path, result.action, result.id, added, removed))


def _conflict(bench: Workbench, proposal: Proposal, error: ToolError) -> Conflict | None:
    """Both versions for the person, if the error is that somebody else saved the file in the meantime."""
    details = error.details
    if "kept" not in details or details.get("written") or proposal.after is None:
        return None
    try:
        found = look(bench, proposal.path).data
    except ToolError:
        return None
    saved, lines = details.get("time"), details.get("lines")
    return Conflict(
        proposal.path,
        proposal.before.data,
        found,
        proposal.after,
        kept=str(details["kept"]),
        what=str(details.get("what", "changed on disk")),
        saved=saved if isinstance(saved, int) else None,
        lines=lines if isinstance(lines, int) else 0,
    )
