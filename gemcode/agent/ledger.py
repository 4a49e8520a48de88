"""What a turn did to files, from the tool log and never from the model's words: written, refused, failed. Pure."""

from collections.abc import Iterable

from gemcode.agent.events import CallRecord, FileChanged, Outcome
from gemcode.frozen import frozen


@frozen
class Written:
    """A file that is different now; several writes to it are one entry."""

    path: str
    action: str  # created, modified, deleted
    added: int
    removed: int
    backup_ids: tuple[str, ...]

    def line(self) -> str:
        return f"{self.path} {self.action} (+{self.added} -{self.removed})"


@frozen
class NotWritten:
    path: str
    why: str


@frozen
class Ledger:
    """`refused` by the person or the mode; `failed` for any other reason. A later success takes an entry away."""

    written: tuple[Written, ...]
    refused: tuple[NotWritten, ...]
    failed: tuple[NotWritten, ...]


def ledger(outcome: Outcome) -> Ledger:
    owed: dict[str, CallRecord] = {}
    for call in outcome.calls:
        if call.writes:
            owed.pop(call.subject, None)
            if not call.ok:
                owed[call.subject] = call
    refused = tuple(NotWritten(path, call.error) for path, call in owed.items() if call.kind == "denied")
    failed = tuple(NotWritten(path, call.error) for path, call in owed.items() if call.kind != "denied")
    return Ledger(written(outcome.files_changed), refused, failed)


def written(changes: Iterable[FileChanged]) -> tuple[Written, ...]:
    """One entry per path, in the order of the first write."""
    files: dict[str, Written] = {}
    for change in changes:
        old = files.get(change.path)
        files[change.path] = Written(
            change.path,
            _net(old.action, change.action) if old else change.action,
            change.added + (old.added if old else 0),
            change.removed + (old.removed if old else 0),
            (*(old.backup_ids if old else ()), change.backup_id),
        )
    return tuple(files.values())


def _net(first: str, then: str) -> str:
    if then == "deleted":
        return "deleted"
    if first == "created":
        return "created"
    return "modified"
