"""The confirm: what would change, drawn from the bytes, and one key that decides. No default, and Enter is never yes.

How keys are read is the Interviewer's part; what they mean is decided here. Nothing is written here.
"""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Protocol

from gemcode.agent.errors import GemcodeError
from gemcode.agent.policy import Sensitivity
from gemcode.agent.tool import Answer, ApprovalRequest, Approved, Conflict, Declined, FileChange, SecretRead, Stopped
from gemcode.terminal.diffview import draw_all, draw_first, draw_hunk
from gemcode.terminal.look import Size
from gemcode.terminal.paint import Line, Style, line, width
from gemcode.terminal.safe import escape, mixes_scripts
from gemcode.terminal.view import NARROW, Marks, conflict_lines, error_lines, plural
from gemcode.workspace.diff import select_hunks, unified
from gemcode.workspace.text import Binary, decode

KEPT_ROWS = 8  # of the screen, for header, question and what was said before


class Key(StrEnum):
    """What is not a letter."""

    STOP = "stop"  # Ctrl-C, Ctrl-D, end of input
    ESCAPE = "escape"
    REDRAW = "redraw"  # Ctrl-L: the screen is empty, so show again what the question is about


class Interviewer(Protocol):
    """Shows lines and reads single keys. It drops what was typed or pasted before the question could be read."""

    marks: Marks

    def size(self) -> Size: ...

    def show(self, lines: Sequence[Line]) -> None: ...

    async def key(self, question: Line, letters: str) -> str:
        """One of `letters`, or a Key."""
        ...

    async def text(self, question: Line, *, typed: bool = False) -> str | Key:
        """A line of text. `typed`: it is a consent, so a paste does not count."""
        ...


Editor = Callable[[str, bytes], Awaitable[bytes]]  # (file name, proposal) → what the person made of it

_HELP = {
    "y": "write it as shown",
    "n": "do not write it; you may tell the model why",
    "h": "choose among the hunks",
    "e": "change the proposal in your editor, then be asked again",
    "a": "write this and all further ordinary files of this turn",
    "d": "print the whole difference, then be asked again",
    "q": "do not write it and stop the turn",
}
_WORDS = {"y": "yes", "n": "no", "h": "hunks", "e": "edit", "a": "all this turn", "d": "diff", "q": "stop"}

_CONFLICT_HELP = {
    "m": "print what was saved since, and what the proposal would now change",
    "r": "the model is told, reads the file again, and may propose anew",
    "n": "the model is told to leave it; /restore still brings the proposal back",
    "q": "stop the turn",
}
_CONFLICT_KEYS = (
    "m show both   r let the model read it again   n drop the proposal   q stop",
    "m show both  r read it again  n drop it  q stop",
    "m r n q (?=help)",
    "m r n q",
)


class Approval:
    """An Approver that asks."""

    def __init__(self, interviewer: Interviewer, editor: Editor) -> None:
        self._interviewer = interviewer
        self._editor = editor

    async def __call__(self, request: ApprovalRequest) -> Answer:
        name = escape(request.call.name, single_line=True)
        match request.preview:
            case SecretRead() as read:
                return await self._ask_secret(name, read)
            case Conflict() as conflict:
                return await self._ask_conflict(conflict)
            case change:
                question = _Question(self._interviewer, self._editor, name, change)
                return await question.ask(in_turn=request.in_turn)

    async def _ask_conflict(self, conflict: Conflict) -> Answer:
        """What to do about a write that met a newer file. No answer writes anything."""
        person = self._interviewer
        person.show(conflict_lines(conflict))
        while True:
            columns = person.size().columns
            question = _fitting("" if columns >= NARROW else "What now?", _CONFLICT_KEYS, columns)
            match await person.key(question, "mrnq?"):
                case "m":
                    person.show(_both(conflict, columns, person.marks))
                case "r":
                    return Approved(None)
                case "n" | Key.ESCAPE:
                    return Declined()
                case "?":
                    person.show([line(f"  {letter}  {help}") for letter, help in _CONFLICT_HELP.items()])
                case Key.REDRAW:
                    person.show(conflict_lines(conflict))
                case _:
                    return Stopped()

    async def _ask_secret(self, name: str, read: SecretRead) -> Answer:
        path = escape(read.path, single_line=True)
        about = [
            line((Style.ASK, "? "), (Style.BOLD, f"{name}  {path}")),
            line((Style.WARN, "! "), f"{escape(read.why, single_line=True)}. Its text would be sent to the model."),
        ]
        key: str = Key.REDRAW
        while key == Key.REDRAW:
            self._interviewer.show(about)
            key = await self._interviewer.key(_question(f"Let the model read {path}?", "ynq", self._interviewer), "ynq")
        if key == "y":
            return Approved(read)
        return await _decline(self._interviewer) if key == "n" else _refusal(key)


class _Question:
    """One proposal, from its first showing to the answer."""

    def __init__(self, interviewer: Interviewer, editor: Editor, name: str, change: FileChange) -> None:
        self._interviewer = interviewer
        self._editor = editor
        self._name = name
        self._path = escape(change.path, single_line=True)
        self._origin = ""
        self._take(change)

    def _take(self, change: FileChange) -> None:
        self._change = change
        self._diff = unified(change.before or b"", change.after or b"")
        self._seen = 0  # hunks shown whole
        self._warned = ""  # the key that was pressed with hunks unseen

    def _letters(self, *, in_turn: bool) -> str:
        ordinary = self._change.sensitivity is Sensitivity.ORDINARY
        several = len(self._diff.hunks) > 1
        edit = self._change.after is not None
        allowed = {"h": several, "e": edit, "a": ordinary and in_turn, "d": bool(self._diff.hunks)}
        return "".join(letter for letter in _WORDS if allowed.get(letter, True))

    async def ask(self, *, in_turn: bool) -> Answer:
        self._show()
        while True:
            letters = self._letters(in_turn=in_turn)
            key = await self._interviewer.key(_question(self._asked(), letters, self._interviewer), letters + "?")
            match key:
                case "y" | "a":
                    if await self._agrees(key):
                        return Approved(self._change, rest_of_turn=key == "a")
                case "n":
                    return await _decline(self._interviewer) if in_turn else Declined()
                case "h":
                    await self._choose_hunks()
                case "e":
                    await self._edit()
                case "d":
                    self._show_all()
                case "?":
                    self._explain(letters)
                case Key.REDRAW:
                    self._show()
                case _:
                    return _refusal(key)

    def _asked(self) -> str:
        if self._change.after is None:
            return f"Delete {self._path}?"
        if self._seen < len(self._diff.hunks):
            return f"Write {self._path} (+{self._diff.added} -{self._diff.removed})?"
        return f"Write {self._path}?"

    async def _agrees(self, key: str) -> bool:
        """Whether this yes counts: all was seen or it was said twice, and the name was typed where that is asked."""
        if self._seen < len(self._diff.hunks) and self._warned != key:
            self._warned = key
            total = len(self._diff.hunks)
            said = (
                f"You have seen {self._seen} of {plural(total, 'hunk')}. Press {key} again to write all, d to see them."
            )
            self._interviewer.show([line("  ", said)])
            return False
        if self._change.sensitivity is Sensitivity.ORDINARY:
            return True
        base = self._path.rpartition("/")[2]
        typed = await self._interviewer.text(
            line((Style.WARN, "! "), f"{self._why()} Type {base} to write it: "), typed=True
        )
        if typed in (base, self._path):
            return True
        self._interviewer.show([line("  That is not its name. Nothing was written.")])
        return False

    def _why(self) -> str:
        why = escape(self._change.why, single_line=True).rstrip(".")
        if why:
            return f"{self._path} {why}." if why[:1].islower() else f"{self._path}: {why}."
        secret = self._change.sensitivity is Sensitivity.SECRET
        return f"{self._path} {'holds secrets' if secret else 'runs later, when nobody looks'}."

    def _show(self) -> None:
        columns, rows = self._interviewer.size()
        marks = self._interviewer.marks
        header = [line((Style.ASK, "? "), (Style.BOLD, f"{self._name}  {self._path}"), f"   {self._facts()}")]
        if columns < NARROW:
            counts = f" +{self._diff.added} -{self._diff.removed}"
            header = [line((Style.ASK, "? "), (Style.BOLD, f"{self._name} {self._path}"), counts, self._origin)]
            if self._change.before is None or not self._change.after:
                header.append(line(f"  {self._facts()}"))
        warnings = self._warnings()
        body, self._seen = draw_first(self._diff, columns, max(rows - KEPT_ROWS - len(warnings), 3), marks)
        self._interviewer.show([*header, *warnings, *body])

    def _facts(self) -> str:
        before, after = self._change.before, self._change.after
        facts = [self._origin.strip()] if self._origin else []
        if after is None:
            facts.append(f"deletes the file, {plural(self._diff.removed, 'line')} (backup kept: gemcode undo)")
        elif before is None:
            facts += ["new file", plural(self._diff.added, "line")]
        elif not after.strip() and before.strip():
            facts.append(f"removes all {plural(self._diff.removed, 'line')} (backup kept: gemcode undo)")
        else:
            facts += [plural(len(self._diff.hunks), "hunk"), f"+{self._diff.added} -{self._diff.removed}"]
            facts.append(_kind(after))
        if self._change.new_directories:
            names = (escape(name.rstrip("/"), single_line=True) + "/" for name in self._change.new_directories)
            facts.append(f"creates {', '.join(names)}")
        return ", ".join(facts)

    def _warnings(self) -> list[Line]:
        said = [escape(note, single_line=True) for note in (*self._diff.notes, *self._change.notes)]
        if self._change.sensitivity is not Sensitivity.ORDINARY:
            said.append(self._why())
        if mixes_scripts(self._change.path):
            said.append("The name mixes letters of different scripts that look alike.")
        return [line((Style.WARN, "! "), text) for text in said]

    def _show_all(self) -> None:
        digest = hashlib.sha256(self._change.after or b"").hexdigest()[:12]
        head = line((Style.BOLD, f"  {self._path}"), f"   {self._facts()}, sha256 {digest}")
        self._interviewer.show([head, *draw_all(self._diff, self._interviewer.size().columns, self._interviewer.marks)])
        self._seen = len(self._diff.hunks)

    def _explain(self, letters: str) -> None:
        self._interviewer.show([line(f"  {letter}  {_HELP[letter]}") for letter in letters])

    async def _edit(self) -> None:
        proposal = self._change.after or b""
        try:
            edited = await self._editor(self._change.path, proposal)
        except GemcodeError as error:
            self._interviewer.show(error_lines(error, self._interviewer.marks))
            return
        if edited == proposal:
            self._interviewer.show([line("  Not changed in the editor.")])
            return
        self._origin = " (edited by you)"
        self._take(replace(self._change, after=edited))
        self._show()

    async def _choose_hunks(self) -> None:
        """As `git add -p`. What is chosen becomes the proposal, and is asked about like any other."""
        chosen = await self._walk_hunks()
        if chosen is None:
            self._interviewer.show([line("  No choice made. The proposal is as before.")])
            return
        if not chosen:
            self._interviewer.show([line("  No hunk taken: n declines the change.")])
            return
        if len(chosen) == len(self._diff.hunks):
            self._seen = len(chosen)
            return
        total = len(self._diff.hunks)
        before, after = self._change.before or b"", self._change.after or b""
        self._origin = f" ({len(chosen)} of {total} hunks)"
        self._take(replace(self._change, after=select_hunks(before, after, chosen)))
        self._seen = len(self._diff.hunks)  # each was shown to be chosen
        taken = f"{len(chosen)} of {total} hunks (+{self._diff.added} -{self._diff.removed})"
        self._interviewer.show([line(f"  Taken: {taken}. The rest of the file stays byte for byte.")])

    async def _walk_hunks(self) -> set[int] | None:
        hunks = self._diff.hunks
        chosen: set[int] = set()
        index = 0
        while index < len(hunks):
            hunk = hunks[index]
            drawn = draw_hunk(hunk, self._interviewer.size().columns, self._interviewer.marks, full=True)
            self._interviewer.show(drawn.lines)
            place = f"Hunk {index + 1} of {len(hunks)}  {self._path}:{hunk.new_start}"
            wordings = (
                "y take  n skip  a take rest  d skip rest  b back  q cancel",
                "y take  n skip  a rest  d none  b back  q end",
            )
            question = _fitting(place, (*wordings, "y n a d b q"), self._interviewer.size().columns)
            key = await self._interviewer.key(question, "ynadbq")
            rest = {later.number for later in hunks[index:]}
            match key:
                case "y":
                    chosen.add(hunk.number)
                case "n":
                    chosen.discard(hunk.number)
                case "a":
                    return chosen | rest
                case "d":
                    return chosen - rest
                case "b":
                    index = max(index - 1, 0)
                    continue
                case Key.REDRAW:
                    continue
                case _:
                    return None
            index += 1
        return chosen


async def _decline(interviewer: Interviewer) -> Answer:
    reason = await interviewer.text(line("Reason for the model (Enter for none): "))
    return Stopped() if reason is Key.STOP else Declined("" if reason is Key.ESCAPE else reason.strip())


def _both(conflict: Conflict, columns: int, marks: Marks) -> list[Line]:
    """The file as it is now against what the person was shown, and the proposal against the file as it is now."""
    since = unified(conflict.shown or b"", conflict.found or b"")
    would = unified(conflict.found or b"", conflict.proposed)
    path = escape(conflict.path, single_line=True)
    shown = [
        line("  ", (Style.BOLD, f"{path}   {heading}"), f"   +{diff.added} -{diff.removed}")
        for heading, diff in (("on disk, since it was shown", since), ("the proposal, against the file now", would))
    ]
    return [shown[0], *draw_all(since, columns, marks), shown[1], *draw_all(would, columns, marks)]


def _refusal(key: str) -> Answer:
    return Declined() if key == Key.ESCAPE else Stopped()


def _question(asked: str, letters: str, interviewer: Interviewer) -> Line:
    words = "  ".join(f"{letter} {_WORDS[letter]}" for letter in letters)
    keys = " ".join(letters)
    columns = interviewer.size().columns
    if width(asked) + len(keys) + 4 > columns:
        asked = asked.split(" ")[0] + "?"
    return _fitting(asked, (words, words.replace(" this turn", ""), f"{keys} (?=help)", keys), columns)


def _fitting(asked: str, wordings: Sequence[str], columns: int) -> Line:
    """The question with the most words that leave room for the answer; below NARROW only letters."""
    room = columns - width(asked) - 4
    fitting = [keys for keys in wordings if len(keys) < room and (columns >= NARROW or "  " not in keys)]
    return line((Style.ASK, asked), f"  {(fitting or wordings[-1:])[0]}")


def _kind(data: bytes) -> str:
    decoded = decode(data)
    if isinstance(decoded, Binary):
        return f"binary ({decoded.kind})"
    names = {"lf": "LF", "crlf": "CRLF", "cr": "CR", "mixed": "mixed line ends", "none": "no line end"}
    return f"{decoded.encoding.upper()}, {names[decoded.newline]}"
