"""Undo and restore as proposals: the caller shows the difference, asks, and hands them to writer.write.

Nothing is written here. A file that was changed since is a conflict, never overwritten by an undo.
"""

from gemcode.agent.errors import ToolError
from gemcode.frozen import frozen
from gemcode.workspace.journal import WriteRecord
from gemcode.workspace.proposal import Proposal, snapshot
from gemcode.workspace.root import Root
from gemcode.workspace.store import Store


@frozen
class UndoPlan:
    """What an undo would do, the newest write first, and what stands against it."""

    proposals: tuple[Proposal, ...]
    conflicts: tuple[ToolError, ...]
    reason: str


def undo(root: Root, store: Store, id: str | None = None, *, turn: str | None = None) -> UndoPlan:
    """Take back one write (the last one, if none is named) or every write of a turn."""
    if turn is not None:
        records = [record for record in store.history() if record.happened and record.intent.turn == turn]
        reason = f"undo of turn {turn}"
    else:
        records = [store.find(id)] if id is not None else [r for r in store.history() if r.happened][:1]
        reason = f"undo of {records[0].id}" if records else ""
    if not records:
        raise ToolError("not_found", "There is nothing to undo in this project.")
    if records[0].status == "kept":
        raise ToolError(
            "not_found", f"{records[0].id} is a version that was set aside, not a write; restore it instead."
        )
    by_path: dict[str, list[WriteRecord]] = {}
    for record in records:
        by_path.setdefault(record.path, []).append(record)
    proposals: list[Proposal] = []
    conflicts: list[ToolError] = []
    for same in by_path.values():
        try:
            proposals += _take_back(root, store, newest=same[0], oldest=same[-1])
        except ToolError as error:
            conflicts.append(error)
    return UndoPlan(tuple(proposals), tuple(conflicts), reason)


def restore(root: Root, store: Store, id: str) -> Proposal:
    """Bring back the bytes from before a write, whatever the file holds now; or a version that was set aside."""
    record = store.find(id)
    proposal = _back_to(root, store, record)
    if proposal.after == proposal.before.data:
        raise ToolError("no_change", f"{record.path} already is as it was before {record.id}.")
    return proposal


def _take_back(root: Root, store: Store, newest: WriteRecord, oldest: WriteRecord) -> list[Proposal]:
    """From what the newest write left to what was there before the oldest; nothing if that is the same."""
    proposal = _back_to(root, store, oldest)
    if proposal.after == proposal.before.data:
        return []
    if proposal.before.hash != newest.intent.new:
        raise ToolError(
            "conflict",
            f"{newest.path} was changed after {newest.id}, so it was not undone; see gemcode restore {oldest.id}.",
            path=newest.path,
            expected=newest.intent.new,
            found=proposal.before.hash,
        )
    return [proposal]


def _back_to(root: Root, store: Store, record: WriteRecord) -> Proposal:
    before = snapshot(root, record.path)
    if record.intent.old is None:
        return Proposal(record.path, before, None, remove=record.intent.directories)
    return Proposal(record.path, before, store.read_object(record.intent.old), mode=record.intent.mode)
