"""What the model has read, by content: the ground on which it may write."""

from dataclasses import dataclass, field

LineSpan = tuple[int, int, int]  # first, last, total; lines from 1, inclusive


@dataclass(slots=True)
class _Seen:
    digest: str
    lines: set[int] = field(default_factory=set)
    total: int = 0
    whole: bool = True  # no line was shortened


class KnownVersions:
    """Path → the content the model last saw of it, and which lines. Thread-safe by being written once per call."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def saw(self, path: str, digest: str, span: LineSpan, whole: bool) -> None:
        """The model was shown these lines of this content."""
        seen = self._seen.get(path)
        if seen is None or seen.digest != digest:
            seen = self._seen[path] = _Seen(digest)
        first, last, total = span
        seen.lines.update(range(first, last + 1))
        seen.total = total
        seen.whole = seen.whole and whole

    def wrote(self, path: str, digest: str | None) -> None:
        """The model's own content stands there now, or nothing does: it knows all of it."""
        if digest is None:
            self._seen.pop(path, None)
        else:
            self._seen[path] = _Seen(digest)

    def version(self, path: str) -> str | None:
        """The hash of what the model saw last, if it saw anything."""
        seen = self._seen.get(path)
        return seen.digest if seen else None

    def is_complete(self, path: str) -> bool:
        """Whether all lines of that content were shown."""
        seen = self._seen.get(path)
        return seen is not None and seen.whole and len(seen.lines) >= seen.total
