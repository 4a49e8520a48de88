"""A diff as lines for the screen: numbered gutter, nothing hidden without saying so. Pure.

Every line of a file carries the gutter, which nothing else on the screen has: a file can't imitate a question.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from gemcode.frozen import frozen
from gemcode.terminal.paint import Line, Style, cut, line, width
from gemcode.terminal.safe import escape_exactly
from gemcode.terminal.view import NARROW, Marks, plural
from gemcode.workspace.diff import Diff, DiffLine, Hunk

LONGEST = 400  # columns of one line that are drawn without being asked for
BLANKS = 20  # blank lines in a row that are drawn without being asked for
_STYLES = {"-": Style.BAD, "+": Style.GOOD, " ": Style.PLAIN}


@frozen
class Drawn:
    """Lines on the screen, and whether every changed character of the file is among them."""

    lines: tuple[Line, ...]
    complete: bool


def draw_hunk(hunk: Hunk, columns: int, marks: Marks, *, full: bool = False) -> Drawn:
    """One hunk. `full` wraps instead of cutting and folds nothing."""
    digits = len(str(max(hunk.old_start + hunk.old_count, hunk.new_start + hunk.new_count)))
    lead = 1 if columns < NARROW else 2
    room = max(columns - lead - digits - 3, 4)
    ends = {one.end for one in hunk.lines} - {"none"}
    blanks = _blanks_matter(hunk)
    out: list[Line] = []
    complete = True
    same_tails = _same_tails(hunk.lines, room)
    for one in hunk.lines if full else _folded(hunk.lines):
        if isinstance(one, int):
            out.append(line((Style.WARN, f"{' ' * (lead + digits)} {marks.more} {one} more blank lines")))
            complete = False
            continue
        number = one.old if one.kind == "-" else one.new
        gutter = f"{' ' * lead}{number:>{digits}} {one.kind} "
        text = shown_text(one, marks, blanks=blanks, ends=len(ends) > 1)
        pieces, whole = _pieces(
            text, room, marks, cut_short=not full and (columns < NARROW or one.kind == " "), full=full
        )
        complete = complete and (whole or one.kind == " " or id(one) in same_tails)
        out.append(line((_STYLES[one.kind], gutter + pieces[0])))
        out += [line((_STYLES[one.kind], f"{' ' * (lead + digits)} {one.kind} {piece}")) for piece in pieces[1:]]
        if one.end == "none" and one.kind != " ":
            out.append(line((Style.DIM, f"{' ' * (lead + digits)} \\ no newline at end of file")))
    return Drawn(tuple(out), complete)


def shown_text(one: DiffLine, marks: Marks, *, blanks: bool, ends: bool) -> str:
    """The text of a line; `blanks` and `ends` make visible what is otherwise not."""
    text = escape_exactly(one.text)
    if blanks and one.kind != " ":
        stripped = text.rstrip(" ")
        dot, arrow = ("·", "→") if marks.more == "…" else (".", ">")
        text = stripped + dot * (len(text) - len(stripped))
        text = text.replace("\t", f"{arrow}\t")
    text = text.expandtabs(4)
    return f"{text} [{one.end}]" if ends and one.end != "none" else text


def draw_first(diff: Diff, columns: int, rows: int, marks: Marks) -> tuple[list[Line], int]:
    """Whole hunks from the top that fit into so many rows, then what is missing; and how many hunks were seen whole."""
    out: list[Line] = []
    seen = 0
    for index, hunk in enumerate(diff.hunks):
        drawn = draw_hunk(hunk, columns, marks)
        separator = [line((Style.DIM, f"  {marks.more}"))] if index else []
        if index and len(out) + len(separator) + len(drawn.lines) > rows:
            break
        out += separator
        if len(drawn.lines) > rows:  # even the first is too long: show its beginning
            out += drawn.lines[: max(rows - 1, 1)]
            missing = plural(len(drawn.lines) - max(rows - 1, 1), "more line")
            out.append(_note(f"{marks.more} {missing} of hunk {hunk.number} not shown", columns))
            break
        out += drawn.lines
        seen += drawn.complete
        if not drawn.complete:
            out.append(_note(f"{marks.more} not all of this is shown", columns))
    else:
        return out, seen
    hidden = diff.hunks[index + (index == 0) :]
    if hidden:
        lines = sum(len(hunk.lines) for hunk in hidden)
        more = f"{plural(len(hidden), 'more hunk')}, {plural(lines, 'line')} not shown"
        out.append(_note(f"{marks.more} {more}", columns))
    return out, seen


def draw_all(diff: Diff, columns: int, marks: Marks) -> Iterator[Line]:
    """Every changed line, for the scrollback."""
    for index, hunk in enumerate(diff.hunks):
        if index:
            yield line((Style.DIM, f"  {marks.more}"))
        yield from draw_hunk(hunk, columns, marks, full=True).lines


def _note(text: str, columns: int) -> Line:
    return line((Style.WARN, cut(f"  {text}", columns)))


def _folded(lines: Sequence[DiffLine]) -> Iterator[DiffLine | int]:
    """The lines, with long runs of blank ones replaced by their number."""
    for blank, group in groupby(lines, key=lambda one: one.kind != " " and not one.text.strip()):
        run = list(group)
        if blank and len(run) > BLANKS:
            yield run[0]
            yield len(run) - 1
        else:
            yield from run


def _pieces(text: str, room: int, marks: Marks, *, cut_short: bool, full: bool) -> tuple[list[str], bool]:
    """The text in rows of `room` columns, and whether that is all of it."""
    if width(text) <= room:
        return [text], True
    if cut_short:
        return [cut(text, room, marks.cut)], False
    whole = full or width(text) <= LONGEST
    kept = text if whole else cut(text, LONGEST)
    rows = list(_chop(kept, room))
    if not whole:
        rows.append(cut(f"{marks.more} {len(text) - len(kept)} more characters of this line", room))
    return rows, whole


def _chop(text: str, room: int) -> Iterator[str]:
    while width(text) > room:
        piece = cut(text, room) or text[0]
        piece = text[: len(piece)]
        yield piece
        text = text[len(piece) :]
    yield text


def _blanks_matter(hunk: Hunk) -> bool:
    """Whether some line changed in blanks alone."""
    gone = {"".join(one.text.split()): one.text for one in hunk.lines if one.kind == "-"}
    return any(one.kind == "+" and gone.get("".join(one.text.split()), one.text) != one.text for one in hunk.lines)


def _same_tails(lines: Sequence[DiffLine], room: int) -> set[int]:
    """Lines (by id) whose part beyond the edge is the same in the line they replace: cutting it hides no change."""
    runs = [(kind, list(group)) for kind, group in groupby(lines, key=lambda one: one.kind)]
    found: set[int] = set()
    for (kind, old), (next_kind, new) in pairwise(runs):
        if (kind, next_kind) == ("-", "+") and len(old) == len(new):
            for one, other in zip(old, new, strict=True):
                kept = max(room - 1, 0)
                if width(one.text) == len(one.text) and one.text[kept:] == other.text[kept:] and one.end == other.end:
                    found |= {id(one), id(other)}
    return found
