"""What a write is about, as values: the file as it was shown, the change that was confirmed, and what came of it."""

import stat
from typing import Literal

from gemcode.agent.errors import ToolError
from gemcode.frozen import frozen
from gemcode.workspace.journal import Identity
from gemcode.workspace.objects import Hash, hash_of
from gemcode.workspace.refusal import tool_error
from gemcode.workspace.root import Root

FILE_BYTES = 8 << 20


@frozen
class Snapshot:
    """A file as the person is shown it: its content, its place, and the directories that a write would have to make."""

    path: str
    data: bytes | None
    hash: Hash | None
    mode: int
    nlink: int
    parent: Identity
    missing: tuple[str, ...]

    @property
    def exists(self) -> bool:
        return self.data is not None


@frozen
class Proposal:
    """A change, bound to what it was decided on. `after` None removes the file, and then the directories in `remove`
    as far as they are empty; `mode` is for a file that is new.
    """

    path: str
    before: Snapshot
    after: bytes | None
    mode: int | None = None
    remove: tuple[str, ...] = ()

    @property
    def action(self) -> Literal["created", "modified", "deleted"]:
        return "created" if not self.before.exists else "deleted" if self.after is None else "modified"


@frozen
class WriteResult:
    """What came of it. `id` undoes it, `notes` are sentences for the person. "Not written" is a ToolError instead."""

    status: Literal["written", "durability_unknown"]
    action: Literal["created", "modified", "deleted"]
    id: str
    hash: Hash | None
    notes: tuple[str, ...]


def snapshot(root: Root, path: str, limit: int = FILE_BYTES) -> Snapshot:
    """The present state of a file that may be written."""
    try:
        with root.open_parent(path) as parent:
            file = parent.open_leaf()
            if file is None:
                return Snapshot(parent.path, None, None, 0, 0, parent.identity, parent.missing)
            with file:
                data = file.read(limit)
                mode, nlink = stat.S_IMODE(file.stat.st_mode), file.stat.st_nlink
                return Snapshot(parent.path, data, hash_of(data), mode, nlink, parent.identity, ())
    except OSError as error:
        raise tool_error(error, path) from error


def propose(before: Snapshot, after: bytes, limit: int = FILE_BYTES) -> Proposal:
    """A proposal that makes sense, or a ToolError that says why it does not."""
    if after == before.data:
        raise ToolError("no_change", f"{before.path} already has exactly this content, so nothing was written.")
    if len(after) > limit:
        raise ToolError("too_large", f"The new content of {before.path} is larger than {limit} bytes.", limit=limit)
    return Proposal(before.path, before, after)
