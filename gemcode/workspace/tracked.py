"""Which files git tracks, from the bytes of its index. A tracked file is listed even where an ignore rule names it.

Pure. The bytes are a stranger's: whatever they say, no more comes of it than names to compare with.
"""

from bisect import bisect_left
from collections.abc import Callable

MAX_BYTES = 64 << 20
_HASHES = (20, 32)  # bytes of an object's name: SHA-1, SHA-256
_FIXED = 42  # bytes of an entry besides that name, before the path: times, ids, mode, size, flags
_EXTENDED, _LENGTH = 0x40, 0x0FFF


class Tracked:
    """The paths, as bytes from the project's directory. The index is read when the first one is asked for."""

    __slots__ = ("_files", "_load", "_sorted")

    def __init__(self, load: Callable[[], bytes] = bytes) -> None:
        self._load: Callable[[], bytes] | None = load
        self._files: frozenset[bytes] = frozenset()
        self._sorted: list[bytes] = []

    def has(self, path: bytes, is_directory: bool) -> bool:
        """Whether this file is tracked, or anything below this directory."""
        if self._load is not None:
            index, self._load = self._load(), None
            found = next((names for size in _HASHES if (names := _read(index, size)) is not None), [])
            self._files = frozenset(found)
            self._sorted = sorted(found)  # as git sorts them, so this costs nothing; a stranger may have them otherwise
        if not is_directory:
            return path in self._files
        at = bisect_left(self._sorted, path + b"/")
        return at < len(self._sorted) and self._sorted[at].startswith(path + b"/")


def _read(index: bytes, hash_size: int) -> list[bytes] | None:
    """The paths; None for an index that is damaged, or of a kind that we do not know."""
    version, count = int.from_bytes(index[4:8], "big"), int.from_bytes(index[8:12], "big")
    if index[:4] != b"DIRC" or version not in (2, 3, 4) or count > len(index) // (_FIXED + hash_size):
        return None
    try:
        return (_read_compressed if version == 4 else _read_padded)(index, count, _FIXED + hash_size)
    except (IndexError, ValueError):  # it ends too early
        return None


def _read_padded(index: bytes, count: int, fixed: int) -> list[bytes] | None:
    """Versions 2 and 3: each path whole, each entry filled up to a multiple of 8 bytes."""
    names: list[bytes] = []
    entry = 12
    for _ in range(count):
        high = index[entry + fixed - 2]
        start = entry + fixed + (2 if high & _EXTENDED else 0)
        length = (high << 8 | index[entry + fixed - 1]) & _LENGTH
        stop = start + length if length < _LENGTH else index.index(0, start + length)
        if index[stop] != 0:
            return None
        names.append(index[start:stop])
        entry += (stop - entry + 8) & ~7
    return names


def _read_compressed(index: bytes, count: int, fixed: int) -> list[bytes] | None:
    """Version 4: each path is the one before without its last bytes, and others in their place."""
    names: list[bytes] = []
    name = b""
    entry = 12
    room = 4 * MAX_BYTES  # a short entry can stand for a long path
    for _ in range(count):
        at = entry + fixed + (2 if index[entry + fixed - 2] & _EXTENDED else 0)
        dropped = index[at] & 0x7F
        while index[at] & 0x80 and dropped <= len(name):
            at += 1
            dropped = (dropped + 1) << 7 | index[at] & 0x7F
        stop = index.index(0, at + 1)
        if dropped > len(name):
            return None
        name = name[: len(name) - dropped] + index[at + 1 : stop]
        room -= len(name)
        if room < 0:
            return None
        names.append(name)
        entry = stop + 1
    return names
