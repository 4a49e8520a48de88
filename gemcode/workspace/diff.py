"""The difference of two byte strings as hunks of lines, for the confirm screen, and a byte-exact choice among them.

Pure, and bounded in time: where the exact shortest edit would cost too much, a block is shown as replaced whole.
"""

import codecs
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import compress, count, pairwise
from operator import ne
from typing import Literal, NamedTuple

from gemcode.frozen import frozen
from gemcode.workspace.text import ENDS, Binary, TextFile, decode, line_end, split_lines

CONTEXT = 3
_MOST_SMALL = 200  # changes that are looked for one by one
_NEAR = 12  # lines, removed and added, that make a small change
_AGREEMENT = 4  # equal lines that end it
_STRIDE = 1024  # lines compared at once
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
EFFORT = 200_000  # steps spent on one comparison before blocks are taken whole; a fraction of a second


class Block(NamedTuple):
    """old[i1:i2] became new[j1:j2]; equal lines are not listed."""

    i1: int
    i2: int
    j1: int
    j2: int


@frozen
class DiffLine:
    """One line as shown. `end` is "lf", "crlf", "cr" or "none" (the last line of a file without a final newline)."""

    kind: Literal[" ", "-", "+"]
    text: str
    end: str
    old: int | None
    new: int | None


@frozen
class Hunk:
    """A group of neighbouring changes with context; `number` counts from 1 and is what select_hunks takes."""

    number: int
    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: tuple[DiffLine, ...]

    @property
    def header(self) -> str:
        return f"@@ -{self.old_start},{self.old_count} +{self.new_start},{self.new_count} @@"


@frozen
class Diff:
    """All hunks, the counts, and in `notes` what line text can't show: encoding, byte order mark, line ends."""

    hunks: tuple[Hunk, ...]
    added: int
    removed: int
    notes: tuple[str, ...]

    def as_text(self) -> str:
        """The usual unified form, with "no newline" marks and a mark on lines that differ in their end alone."""
        out: list[str] = []
        for hunk in self.hunks:
            out.append(hunk.header)
            ends = {line.end for line in hunk.lines} - {"none"}
            for line in hunk.lines:
                mark = f" [{line.end}]" if len(ends) > 1 and line.end != "none" else ""
                out.append(f"{line.kind}{line.text}{mark}")
                if line.end == "none":
                    out.append("\\ No newline at end of file")
        return "\n".join(out) + "\n" if out else ""


def unified(before: bytes, after: bytes) -> Diff:
    """The hunks that turn `before` into `after`."""
    old, new = _Side.read(before), _Side.read(after)
    groups = _group(align(old.lines, new.lines))
    hunks = tuple(_hunk(number, group, old, new) for number, group in enumerate(groups, 1))
    shown = [line.kind for hunk in hunks for line in hunk.lines]
    return Diff(hunks, shown.count("+"), shown.count("-"), _notes(old.decoded, new.decoded))


def count_changes(before: bytes, after: bytes) -> tuple[int, int]:
    """How many lines unified(before, after) adds and removes, without making anything to show."""
    blocks = align(_byte_lines(before), _byte_lines(after))
    return sum(block.j2 - block.j1 for block in blocks), sum(block.i2 - block.i1 for block in blocks)


def select_hunks(before: bytes, after: bytes, chosen: AbstractSet[int]) -> bytes:
    """`before` with only the chosen hunks of unified(before, after) applied; all give `after`, none `before`."""
    old, new = _byte_lines(before), _byte_lines(after)
    out: list[bytes] = []
    position = 0
    for number, group in enumerate(_group(align(old, new)), 1):
        for block in group:
            out += old[position : block.i1]
            out += new[block.j1 : block.j2] if number in chosen else old[block.i1 : block.i2]
            position = block.i2
    return b"".join(out + old[position:])


def align(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Block]:
    """The blocks that differ, in order. Lines unique on both sides anchor it; a capped exact search does the rest."""
    effort = EFFORT
    found: list[Block] = []
    pending = _small_changes(old, new)
    while pending:
        block = _trim(old, new, pending.pop())
        if block.i1 == block.i2 or block.j1 == block.j2:
            if block.i1 < block.i2 or block.j1 < block.j2:
                found.append(block)
            continue
        effort -= (block.i2 - block.i1 + block.j2 - block.j1) // 8
        anchors = _anchors(old, new, block) if effort > 0 else []
        if anchors:
            pending += _gaps(block, anchors)
            continue
        matches, spent = _shortest_edit(*_numbered(old[block.i1 : block.i2], new[block.j1 : block.j2]), effort)
        effort -= spent
        found += _gaps(block, ((block.i1 + i, block.j1 + j) for i, j in matches))
    return _joined(sorted(found))


def _small_changes(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Block]:
    """The places that differ, where they are small and apart: equal runs are passed at the speed of C. What follows a
    change that is not small is one block, for the search to look into."""
    blocks: list[Block] = []
    i = j = 0
    while len(blocks) < _MOST_SMALL:
        step = _equal_lines(old, new, i, j)
        i, j = i + step, j + step
        end = _next_agreement(old, new, i, j)
        if end is None:
            break
        blocks.append(Block(i, end[0], j, end[1]))
        i, j = end
    return [*blocks, Block(i, len(old), j, len(new))]


def _equal_lines(old: Sequence[Hashable], new: Sequence[Hashable], i: int, j: int) -> int:
    """How many lines are equal from here on."""
    passed = 0
    while True:
        a, b = (side[start + passed : start + passed + _STRIDE] for side, start in ((old, i), (new, j)))
        if a != b or not a:
            return passed + next(compress(count(), map(ne, a, b)), min(len(a), len(b)))
        passed += len(a)


def _next_agreement(old: Sequence[Hashable], new: Sequence[Hashable], i: int, j: int) -> tuple[int, int] | None:
    """The nearest lines from which on both sides agree for a while."""
    for distance in range(1, _NEAR + 1):
        for x in range(i, i + distance + 1):
            y = j + distance - (x - i)
            ahead = old[x : x + _AGREEMENT]
            if len(ahead) == _AGREEMENT and ahead == new[y : y + _AGREEMENT]:
                return x, y
    return None


def _numbered(old: Sequence[Hashable], new: Sequence[Hashable]) -> tuple[list[int], list[int]]:
    """Numbers in place of lines: the search compares them again and again, and a line may be long."""
    numbers: dict[Hashable, int] = {}
    return (
        [numbers.setdefault(line, len(numbers)) for line in old],
        [numbers.setdefault(line, len(numbers)) for line in new],
    )


def _trim(a: Sequence[Hashable], b: Sequence[Hashable], block: Block) -> Block:
    i1, i2, j1, j2 = block
    while i1 < i2 and j1 < j2 and a[i1] == b[j1]:
        i1, j1 = i1 + 1, j1 + 1
    while i1 < i2 and j1 < j2 and a[i2 - 1] == b[j2 - 1]:
        i2, j2 = i2 - 1, j2 - 1
    return Block(i1, i2, j1, j2)


def _anchors(a: Sequence[Hashable], b: Sequence[Hashable], block: Block) -> list[tuple[int, int]]:
    """The longest rising run of lines that occur once on each side (the patience method)."""
    ours = Counter(a[block.i1 : block.i2])
    theirs = Counter(b[block.j1 : block.j2])
    place = {b[j]: j for j in range(block.j1, block.j2) if theirs[b[j]] == 1}
    pairs = [(i, place[a[i]]) for i in range(block.i1, block.i2) if ours[a[i]] == 1 and a[i] in place]
    if all(j < following for (_, j), (_, following) in pairwise(pairs)):
        return pairs  # nothing was moved, as nearly always
    tails: list[int] = []
    ends: list[int] = []
    previous: list[int] = []
    for index, (_, j) in enumerate(pairs):
        rank = bisect_left(tails, j)
        previous.append(ends[rank - 1] if rank else -1)
        tails[rank : rank + 1] = [j]
        ends[rank : rank + 1] = [index]
    chain: list[tuple[int, int]] = []
    index = ends[-1] if ends else -1
    while index >= 0:
        chain.append(pairs[index])
        index = previous[index]
    return chain[::-1]


def _gaps(block: Block, matches: Iterable[tuple[int, int]]) -> list[Block]:
    """What lies between matched pairs, empty gaps left out."""
    out: list[Block] = []
    i, j = block.i1, block.j1
    for x, y in [*matches, (block.i2, block.j2)]:
        if i < x or j < y:
            out.append(Block(i, x, j, y))
        i, j = x + 1, y + 1
    return out


def _shortest_edit(a: list[int], b: list[int], effort: int) -> tuple[list[tuple[int, int]], int]:
    """Matched pairs by Myers' greedy search, or none when it would cost more than `effort`; and what it cost."""
    reach = {1: 0}
    trail: list[dict[int, int]] = []
    spent = 0
    for distance in range(len(a) + len(b) + 1):
        if spent > effort:
            break
        trail.append(reach.copy())
        spent += 2 * distance + 1
        for k in range(-distance, distance + 1, 2):
            down = k == -distance or (k != distance and reach[k - 1] < reach[k + 1])
            x = reach[k + 1] if down else reach[k - 1] + 1
            start = x
            while x < len(a) and x - k < len(b) and a[x] == b[x - k]:
                x += 1
            spent += x - start
            reach[k] = x
            if x >= len(a) and x - k >= len(b):
                return _walk_back(trail, len(a), len(b)), spent
    return [], spent


def _walk_back(trail: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    matches: list[tuple[int, int]] = []
    for distance in range(len(trail) - 1, -1, -1):
        reach, k = trail[distance], x - y
        down = k == -distance or (k != distance and reach[k - 1] < reach[k + 1])
        from_k = k + 1 if down else k - 1
        from_x = reach[from_k]
        from_y = from_x - from_k
        while x > from_x and y > from_y and x > 0 and y > 0:
            x, y = x - 1, y - 1
            matches.append((x, y))
        x, y = from_x, from_y
    return matches[::-1]


def _joined(blocks: list[Block]) -> list[Block]:
    """Blocks that touch on both sides become one."""
    out: list[Block] = []
    for block in blocks:
        if out and out[-1].i2 == block.i1 and out[-1].j2 == block.j1:
            out[-1] = Block(out[-1].i1, block.i2, out[-1].j1, block.j2)
        else:
            out.append(block)
    return out


def _group(blocks: Iterable[Block]) -> list[list[Block]]:
    """Changes whose contexts would touch share a hunk."""
    groups: list[list[Block]] = []
    for block in blocks:
        if groups and block.i1 - groups[-1][-1].i2 <= 2 * CONTEXT:
            groups[-1].append(block)
        else:
            groups.append([block])
    return groups


def _byte_lines(data: bytes) -> list[bytes]:
    """The lines with their ends. In bytes only CR, LF and CRLF end a line; two bytes a character need more care."""
    return _Side.read(data).lines if data.startswith(_WIDE) else data.splitlines(keepends=True)


@frozen
class _Side:
    """One version: what it decodes to, its lines as bytes, and how to show one."""

    decoded: TextFile | Binary
    lines: list[bytes]
    codec: str

    @classmethod
    def read(cls, data: bytes) -> "_Side":
        decoded = decode(data)
        if isinstance(decoded, TextFile) and decoded.encoding.startswith("utf-16"):
            lines = [line.encode(decoded.encoding) for line in split_lines("\ufeff" + decoded.text)]
            return cls(decoded, lines, decoded.encoding)
        codec = "utf-8" if isinstance(decoded, TextFile) and decoded.encoding != "latin-1" else "latin-1"
        return cls(decoded, data.splitlines(keepends=True), codec)

    def show(self, index: int) -> tuple[str, str]:
        line = self.lines[index].decode(self.codec)
        end = line_end(line)
        text = line.removesuffix(end)
        return text.removeprefix("\ufeff") if index == 0 else text, ENDS.get(end, "none")


def _hunk(number: int, group: list[Block], old: _Side, new: _Side) -> Hunk:
    lead = min(CONTEXT, group[0].i1)
    i1, j1 = group[0].i1 - lead, group[0].j1 - lead
    trail = min(CONTEXT, len(old.lines) - group[-1].i2)
    i2, j2 = group[-1].i2 + trail, group[-1].j2 + trail
    lines: list[DiffLine] = []
    i, j = i1, j1
    for block in [*group, Block(i2, i2, j2, j2)]:
        for step in range(block.i1 - i):
            lines.append(DiffLine(" ", *old.show(i + step), old=i + step + 1, new=j + step + 1))
        lines += [DiffLine("-", *old.show(x), old=x + 1, new=None) for x in range(block.i1, block.i2)]
        lines += [DiffLine("+", *new.show(y), old=None, new=y + 1) for y in range(block.j1, block.j2)]
        i, j = block.i2, block.j2
    old_start, new_start = i1 + (i2 > i1), j1 + (j2 > j1)  # as in POSIX: an empty side names the line before it
    return Hunk(number, old_start, i2 - i1, new_start, j2 - j1, tuple(lines))


def _notes(old: TextFile | Binary, new: TextFile | Binary) -> tuple[str, ...]:
    if isinstance(old, Binary) or isinstance(new, Binary):
        kinds = [side.kind if isinstance(side, Binary) else "text" for side in (old, new)]
        return (f"binary content: {kinds[0]} becomes {kinds[1]}",)
    notes: list[str] = []
    plain = {"utf-8", "utf-8-sig"}
    if old.encoding != new.encoding and not {old.encoding, new.encoding} <= plain and old.text and new.text:
        notes.append(f"encoding: {old.encoding} becomes {new.encoding}")
    if old.bom != new.bom and old.text + new.text:
        notes.append(f"byte order mark: {'added' if new.bom else 'removed'}")
    if old.newline != new.newline and "none" not in (old.newline, new.newline):
        notes.append(f"line ends: {old.newline} become {new.newline}")
    if old.final_newline != new.final_newline and old.text and new.text:
        notes.append(f"final newline: {'added' if new.final_newline else 'removed'}")
    return tuple(notes)
