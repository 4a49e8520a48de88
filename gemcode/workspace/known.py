"""What the model has seen of each file, so that it never overwrites what it has not read. Values only, no I/O."""

from dataclasses import dataclass

from gemcode.agent.errors import ToolError
from gemcode.workspace.objects import Hash
from gemcode.workspace.proposal import Snapshot
from gemcode.workspace.text import Span


@dataclass(slots=True)
class _Seen:
    hash: Hash
    unseen: set[int] | None  # lines; None: some, and it is not known which


class KnownVersions:
    """Path to version, whole or in part. Parts of the same version add up."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def saw(self, path: str, hash: Hash, span: Span) -> None:
        """The model was shown these lines; a line that was cut does not count."""
        seen = self._seen.get(path)
        if seen is None or seen.hash != hash:
            seen = self._seen[path] = _Seen(hash, None)
        unseen = set(range(1, span.total + 1)) if seen.unseen is None else seen.unseen
        cut = span.cut.shortened if span.cut else ()
        seen.unseen = unseen.difference(set(range(span.first, span.last + 1)).difference(cut))

    def wrote(self, path: str, hash: Hash | None) -> None:
        """The model's own content is there now (None: it does not know what). What was unseen before stays unseen,
        but under other numbers."""
        seen = self._seen.pop(path, None)
        if hash is not None:
            self._seen[path] = _Seen(hash, set() if seen is None or seen.unseen == set() else None)

    def require(self, before: Snapshot, *, whole: bool) -> None:
        """Refuse to write over a version that the model has not read: all of it, or any part."""
        if not before.exists:
            return
        path = before.path
        seen = self._seen.get(path)
        if seen is None:
            raise ToolError("not_read", f"{path} exists and you have not read it. Call read_file first.", path=path)
        if seen.hash != before.hash:
            raise ToolError("stale", f"{path} has changed since you read it. Call read_file again.", path=path)
        if whole and seen.unseen != set():
            first = min(seen.unseen or {1})
            raise ToolError(
                "not_read",
                f"You have read only a part of {path}. Read the rest from line {first}, or use edit_file.",
                path=path,
                first_unread_line=first,
            )
