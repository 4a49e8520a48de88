"""New bytes for a file from what the model asked: exact replacements, or new content in the file's own style.

Pure. Bytes outside the change stay identical; what can't be kept is refused. A near miss is described, never applied.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from itertools import accumulate, islice, pairwise
from typing import Literal

from gemcode.agent.errors import ToolError
from gemcode.frozen import frozen
from gemcode.workspace.diff import align
from gemcode.workspace.text import Binary, TextFile, decode, dominant_end, encode, line_end, normalise, split_lines

MATCHES_REPORTED = 20
MATCHES_COUNTED = 100  # a long `old` in a file of one letter matches everywhere, and each look costs its length
REGION_CHARACTERS = 4_000
FUZZY_LINES = 5_000
FUZZY_WIDTH = 200
ALIKE = 0.4  # the share of common letter pairs from which on a line is worth showing


@frozen
class Edit:
    """Replace `old` by `new`, which occurs exactly once, or everywhere with `all`."""

    old: str
    new: str
    all: bool = False


@frozen
class _Change:
    start: int  # offsets in the exact text
    stop: int
    new: str
    edit: int
    literal: bool  # `old` named carriage returns itself, so `new` means its line ends too


def apply_edits(data: bytes, edits: Sequence[Edit]) -> bytes:
    """The file with every edit applied, all of them matched against the file as it is; or a ToolError and no change.

    A "\\n" in `old` matches any line end, one in `new` takes the end of the line it replaces. A "\\r" means itself.
    """
    file = _require_text(data)
    if not edits:
        raise ToolError("no_change", "No edits were given, so nothing was changed.")
    page = _Page(file.text)
    changes = sorted((c for i, edit in enumerate(edits, 1) for c in _changes(page, edit, i)), key=lambda c: c.start)
    for first, second in pairwise(changes):
        if second.start < first.stop:
            raise ToolError(
                "overlapping_edits",
                f"Edits {first.edit} and {second.edit} overlap at line {page.line(second.start)}; join them into one.",
                edits=sorted({first.edit, second.edit}),
                line=page.line(second.start),
            )
    out: list[str] = []
    seen: list[str] = []
    position = 0
    for change in changes:
        kept = file.text[position : change.start]
        lines = split_lines(file.text[change.start : change.stop])
        out += (kept, change.new if change.literal else keep_ends(lines, change.new, page.end_at(change.stop)))
        seen += (kept, change.new)
        position = change.stop
    rest = file.text[position:]
    return _exact("".join([*out, rest]), file, normalise_parts([*seen, rest]), data)


def new_content(before: bytes | None, content: str, mode: Literal["overwrite", "append"] = "overwrite") -> bytes:
    """The bytes of a whole new content, in the encoding and line ends of the existing file; a new one is UTF-8."""
    if before is None:
        return _exact(content, TextFile("", "utf-8", False, "none", False), normalise(content), None)
    file = _require_text(before)
    lines = split_lines(file.text) if "\r" in file.text else []  # else every end is a line feed
    if mode == "append":
        end = next(filter(None, map(line_end, reversed(lines))), "\n")
        text = file.text + keep_ends([], content, end)
        return _exact(text, file, normalise_parts([file.text, content]), before)
    content = content.removeprefix("\ufeff") if file.bom else content
    return _exact(keep_ends(lines, content, dominant_end(lines)), file, normalise(content), before)


def keep_ends(old: Sequence[str], new: str, default: str) -> str:
    """`new` with each "\\n" turned into the end of the old line it stands for; `default` where there is none."""
    if default == "\n" and all(line_end(line) in ("\n", "") for line in old):
        return new
    lines = split_lines(new)
    ends: list[str] = [line_end(line) for line in old]
    bodies = [line.removesuffix(end) for line, end in zip(old, ends, strict=True)]
    fresh = [line.removesuffix(line_end(line)) for line in lines]
    source: dict[int, int] = {}
    i = j = 0
    for block in [*align(bodies, fresh), None]:
        i1, j1 = (block.i1, block.j1) if block else (len(bodies), len(fresh))
        source.update(zip(range(j, j1), range(i, i1), strict=True))
        if block:
            source.update(zip(range(block.j1, block.j2), range(block.i1, block.i2), strict=False))
            i, j = block.i2, block.j2
    out: list[str] = []
    current = default
    for index, line in enumerate(lines):
        if line_end(line) == "\n":
            current = ends[source[index]] if index in source and ends[source[index]] else current
            out.append(fresh[index] + current)
        else:
            out.append(line)
    return "".join(out)


def normalise_parts(parts: Sequence[str]) -> str:
    """Each part normalised by itself: what the model expects to read back, however the parts meet."""
    return "".join(map(normalise, parts))


class _Page:
    """A text under edit: its view with "\\n" line ends, and the way from offsets in the view to offsets in the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.view = normalise(text)
        self._pairs: list[int] = []  # offsets in the view of line ends that are two characters in the text
        at = text.find("\r\n")
        while at >= 0:
            self._pairs.append(at - len(self._pairs))
            at = text.find("\r\n", at + 2)
        lines = split_lines(text)
        self._starts = [0, *accumulate(map(len, lines))][: max(len(lines), 1)]
        self._ends = [line_end(line) for line in lines]

    def offset(self, at: int) -> int:
        return at + bisect_left(self._pairs, at)

    def line(self, offset: int) -> int:
        return bisect_right(self._starts, offset)

    def end_at(self, offset: int) -> str:
        """The end of the line around an offset, or of the line before it where the file ends without one."""
        here = self.line(offset)
        return next((end for end in reversed(self._ends[max(here - 2, 0) : here]) if end), "\n")


def _changes(page: _Page, edit: Edit, number: int) -> list[_Change]:
    if not edit.old:
        raise ToolError("empty_old", f"Edit {number} has an empty `old`; give the text to replace.", edit=number)
    if edit.old == edit.new:
        raise ToolError("no_change", f"Edit {number} replaces a text by itself, so nothing was changed.", edit=number)
    literal = "\r" in edit.old
    text = page.text if literal else page.view
    starts = list(_find_all(text, edit.old) if edit.all else islice(_find_all(text, edit.old, 1), MATCHES_COUNTED))
    if not starts:
        raise _miss(page, edit, number)
    if len(starts) > 1 and not edit.all:
        lines = [page.line(start if literal else page.offset(start)) for start in starts[:MATCHES_REPORTED]]
        many = f"{'at least ' * (len(starts) == MATCHES_COUNTED)}{len(starts)}"
        raise ToolError(
            "many_matches",
            f"Edit {number} matches {many} times; add lines around it to make it unique, or set all to true.",
            edit=number,
            matches=len(starts),
            lines=lines,
        )
    if not literal:
        spans = [(page.offset(start), page.offset(start + len(edit.old))) for start in starts]
    else:
        spans = [(start, start + len(edit.old)) for start in starts]
    return [_Change(start, stop, edit.new, number, literal) for start, stop in spans]


def _find_all(text: str, old: str, step: int | None = None) -> Iterator[int]:
    at = text.find(old)
    while at >= 0:
        yield at
        at = text.find(old, at + (step or len(old)))


def _require_text(data: bytes) -> TextFile:
    file = decode(data)
    if isinstance(file, Binary):
        raise ToolError("binary", f"This is not a text file but {file.kind}; it can't be edited.", type_found=file.kind)
    return file


def _exact(text: str, like: TextFile, expected: str, before: bytes | None) -> bytes:
    """The encoded text, once it is proved to read back as exactly what the model expects."""
    data = encode(text, like)
    if data == before:
        raise ToolError("no_change", "The file already has exactly this content, so nothing was changed.")
    back = decode(data)
    if isinstance(back, Binary):
        raise ToolError(
            "encoding", f"With this change the file would no longer be text but {back.kind}; it was not made."
        )
    mark = "\ufeff" if back.bom and not like.bom else ""
    if normalise(mark + back.text) != expected:
        raise ToolError(
            "encoding",
            f"As {like.encoding} with {like.newline} line ends this would read back as another text; it was not made.",
            encoding=like.encoding,
            line_ends=like.newline,
        )
    return data


def _miss(page: _Page, edit: Edit, number: int) -> ToolError:
    """What a person would look for: the region most like `old`, its lines, and how it differs. Bounded in time."""
    message = f"Edit {number}: `old` does not occur in the file"
    wanted, lines = split_lines(normalise(edit.old)), split_lines(page.view)
    start = _nearest(wanted, lines)
    if start is None:
        return ToolError("no_match", f"{message}, nor anything like it; read the file again.", edit=number)
    region = lines[start : start + len(wanted)]
    same_words = "".join(wanted).split() == "".join(region).split()
    why = (
        "only the line ends differ"
        if normalise(edit.old) in page.view
        else "only the white space differs"
        if same_words
        else "the difference is shown"
    )
    difference = "".join(
        line if line.endswith("\n") else line + "\n"
        for line in unified_diff(wanted[:200], region[:200], "old", "file", n=1)
    )
    return ToolError(
        "no_match",
        f"{message}; the closest is lines {start + 1} to {start + len(region)} ({why}).",
        edit=number,
        first_line=start + 1,
        last_line=start + len(region),
        text="".join(region)[:REGION_CHARACTERS],
        difference=difference[:REGION_CHARACTERS],
    )


def _nearest(wanted: list[str], lines: list[str]) -> int | None:
    """The first line (from 0) of the closest region: by equal lines if there are any, else by the longest line."""
    places: dict[str, list[int]] = {}
    for index, line in enumerate(lines):
        places.setdefault("".join(line.split()), []).append(index)
    votes: Counter[int] = Counter()
    for offset, line in enumerate(wanted[:500]):
        key = "".join(line.split())
        found = places.get(key, ()) if key else ()
        for index in found[:50]:
            votes[max(index - offset, 0)] += 1 + (len(key) if len(found) == 1 else 0)
    if votes:
        return min(votes, key=lambda start: (-votes[start], start))
    offset, longest = max(enumerate(wanted), key=lambda pair: len(pair[1].strip()))
    pairs = _letter_pairs(longest)
    best, where = ALIKE, None
    for index, line in enumerate(lines[:FUZZY_LINES]):
        others = _letter_pairs(line)
        likeness = 2 * (pairs & others).total() / max(pairs.total() + others.total(), 1)
        if likeness > best:
            best, where = likeness, index
    return None if where is None else max(where - offset, 0)


def _letter_pairs(line: str) -> Counter[str]:
    """What two lines have in common is counted in neighbouring letters: linear in time, unlike a longest match."""
    return Counter(map("".join, pairwise(line.strip()[:FUZZY_WIDTH])))
