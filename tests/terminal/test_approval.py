"""The confirm: what is shown is what the bytes say, and only a deliberate yes writes."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemcode.agent.errors import UsageError
from gemcode.agent.messages import ToolCall
from gemcode.agent.policy import Sensitivity
from gemcode.agent.tool import (
    Answer,
    ApprovalRequest,
    Approved,
    Conflict,
    Declined,
    FileChange,
    Preview,
    SecretRead,
    Stopped,
)
from gemcode.terminal.approval import Approval, Key
from gemcode.terminal.look import Size
from gemcode.terminal.paint import Line, plain, width
from gemcode.terminal.view import UNICODE
from gemcode.workspace.diff import select_hunks


class Person:
    """Answers questions from a list; what was shown and asked is kept."""

    marks = UNICODE

    def __init__(self, *answers: str, size: Size = Size(80, 24)) -> None:
        self._answers = list(answers)
        self._size = size
        self.shown: list[str] = []
        self.questions: list[str] = []

    def size(self) -> Size:
        return self._size

    def show(self, lines: Sequence[Line]) -> None:
        self.shown += [plain(one) for one in lines]

    async def key(self, question: Line, letters: str) -> str:
        self.questions.append(plain(question))
        answer = self._answers.pop(0)
        assert len(answer) > 1 or answer in letters, (answer, letters)
        return answer

    async def text(self, question: Line, *, typed: bool = False) -> str | Key:
        self.questions.append(plain(question))
        answer = self._answers.pop(0)
        return Key(answer) if answer in tuple(Key) else answer

    @property
    def screen(self) -> str:
        return "\n".join(self.shown)


async def same(name: str, data: bytes) -> bytes:
    return data


def ask(person: Person, preview: Preview | Conflict, editor: object = same) -> Answer:
    request = ApprovalRequest(ToolCall("c1", "edit_file", {}), preview)
    return asyncio.run(Approval(person, editor)(request))  # type: ignore[arg-type]


def change(before: str | None, after: str | None, path: str = "src/cart.py", **more: object) -> FileChange:
    return FileChange(
        path,
        None if before is None else before.encode(),
        None if after is None else after.encode(),
        **more,  # type: ignore[arg-type]
    )


SMALL = change("a\nb\nc\n", "a\nB\nc\n")
MANY = "\n".join(f"line {n}" for n in range(100)) + "\n"
MANY_CHANGED = "\n".join(f"line {n}" if n % 20 else f"new {n}" for n in range(100)) + "\n"


def test_a_small_change_is_shown_whole_and_one_yes_is_enough() -> None:
    person = Person("y")
    assert ask(person, SMALL) == Approved(SMALL)
    assert person.shown == [
        "? edit_file  src/cart.py   1 hunk, +1 -1, UTF-8, LF",
        "  1   a",
        "  2 - b",
        "  2 + B",
        "  3   c",
    ]
    assert person.questions == ["Write src/cart.py?  y yes  n no  e edit  a all this turn  d diff  q stop"]


def test_all_is_for_the_rest_of_the_turn() -> None:
    assert ask(Person("a"), SMALL) == Approved(SMALL, rest_of_turn=True)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (("n", ""), Declined()),
        (("n", "  keep it "), Declined("keep it")),
        (("n", Key.ESCAPE), Declined()),
        (("n", Key.STOP), Stopped()),
        ((Key.ESCAPE,), Declined()),
        ((Key.STOP,), Stopped()),
        (("q",), Stopped()),
        (("?", "q"), Stopped()),
        (("d", "q"), Stopped()),
    ],
)
def test_every_other_answer_is_a_no(answers: tuple[str, ...], expected: Answer) -> None:
    assert ask(Person(*answers), SMALL) == expected


SAVED = Conflict("src/cart.py", b"a\nb\nc\n", b"a\nb\nc\ntheirs\n", b"a\nB\nc\n", kept="k3f9", saved=0, lines=1)
WHAT_NOW = "  m show both   r let the model read it again   n drop the proposal   q stop"


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (("r",), Approved(None)),
        (("n",), Declined()),
        ((Key.ESCAPE,), Declined()),
        (("q",), Stopped()),
        ((Key.STOP,), Stopped()),
        ((Key.REDRAW, "?", "m", "m", "r"), Approved(None)),
    ],
)
def test_29_a_conflict_is_asked_about_until_one_of_three_is_chosen(answers: tuple[str, ...], expected: Answer) -> None:
    person = Person(*answers)
    assert ask(person, SAVED) == expected
    clock = time.strftime("%H:%M:%S", time.localtime(0))
    assert person.shown[:2] == [
        f"! src/cart.py changed on disk while you were reading ({clock}, +1 line).",
        "  Not written. Yours is untouched. The proposal is kept as k3f9.",
    ]
    assert person.questions == [WHAT_NOW] * len(answers)


def test_29_both_versions_are_shown_with_what_would_be_lost() -> None:
    person = Person("m", "n")
    ask(person, SAVED)
    assert person.shown[2:] == [
        "  src/cart.py   on disk, since it was shown   +1 -0",
        "  1   a",
        "  2   b",
        "  3   c",
        "  4 + theirs",
        "  src/cart.py   the proposal, against the file now   +1 -2",
        "  1   a",
        "  2 - b",
        "  2 + B",
        "  3   c",
        "  4 - theirs",
    ]


def test_29_a_file_that_is_gone_or_hostile_is_shown_all_the_same() -> None:
    person = Person("m", "n", size=Size(40, 15))
    ask(person, replace(SAVED, found=None, proposed=b"\x1b[2J\n", what="was removed", saved=None, lines=0))
    assert "! src/cart.py was removed while you were reading." in person.shown
    assert "\\x1b[2J" in person.screen and "\x1b" not in person.screen
    assert person.questions == ["What now?  m r n q (?=help)"] * 2


def test_26_unseen_hunks_need_a_second_yes_of_the_same_kind() -> None:
    big = change(MANY, MANY_CHANGED)
    person = Person("y", "a", "y", "y", size=Size(80, 20))
    assert ask(person, big) == Approved(big)
    assert "  … 4 more hunks, 32 lines not shown" in person.shown
    assert "  You have seen 1 of 5 hunks. Press y again to write all, d to see them." in person.shown
    assert "  You have seen 1 of 5 hunks. Press a again to write all, d to see them." in person.shown


def test_26_after_the_whole_diff_one_yes_is_enough() -> None:
    big = change(MANY, MANY_CHANGED)
    person = Person("d", "y", size=Size(80, 20))
    assert ask(person, big) == Approved(big)
    assert all(any(row.endswith(f"+ new {n}") for row in person.shown) for n in range(0, 100, 20))
    assert any("sha256" in row for row in person.shown)


def test_28_new_emptied_and_deleted_files_say_so() -> None:
    new = Person("q")
    ask(new, change(None, "x\n" * 42, "docs/new/api.md", new_directories=("docs/new",)))
    assert new.shown[0] == "? edit_file  docs/new/api.md   new file, 42 lines, creates docs/new/"
    empty = Person("q")
    ask(empty, change("a\nb\n", ""))
    assert empty.shown[0].endswith("removes all 2 lines (backup kept: gemcode undo)")
    gone = Person("q")
    ask(gone, change("a\nb\n", None))
    assert gone.shown[0].endswith("deletes the file, 2 lines (backup kept: gemcode undo)")
    assert gone.questions[0].startswith("Delete src/cart.py?")


def test_30_hunks_are_taken_byte_for_byte() -> None:
    big = change(MANY, MANY_CHANGED)
    person = Person("h", "y", "n", "b", "y", "n", "a", "y")
    answer = ask(person, big)
    assert isinstance(answer, Approved) and isinstance(answer.preview, FileChange)
    assert answer.preview.after == select_hunks(MANY.encode(), MANY_CHANGED.encode(), {1, 2, 4, 5})
    assert any(question.startswith("Hunk 2 of 5  src/cart.py:18") for question in person.questions)
    assert any(row.startswith("  Taken: 4 of 5 hunks (+4 -4)") for row in person.shown)


@pytest.mark.parametrize("answers", [("h", "q"), ("h", Key.STOP), ("h", "d"), ("h", "n", "n", "n", "n", "n")])
def test_30_leaving_the_hunks_writes_nothing(answers: tuple[str, ...]) -> None:
    assert ask(Person(*answers, "q"), change(MANY, MANY_CHANGED)) == Stopped()


def test_taking_every_hunk_is_the_proposal_itself() -> None:
    big = change(MANY, MANY_CHANGED)
    assert ask(Person("h", "a", "y"), big) == Approved(big)


def test_what_came_out_of_the_editor_is_shown_and_asked_about() -> None:
    async def editor(name: str, data: bytes) -> bytes:
        assert (name, data) == ("src/cart.py", b"a\nB\nc\n")
        return b"a\nmine\nc\n"

    person = Person("e", "y")
    answer = ask(person, SMALL, editor)
    assert isinstance(answer, Approved) and isinstance(answer.preview, FileChange)
    assert answer.preview.after == b"a\nmine\nc\n"
    assert "  2 + mine" in person.shown
    assert len(person.questions) == 2


def test_a_failing_editor_changes_nothing() -> None:
    async def editor(name: str, data: bytes) -> bytes:
        raise UsageError("vi could not be started.", "Set EDITOR.")

    person = Person("e", "y")
    assert ask(person, SMALL, editor) == Approved(SMALL)
    assert "✗ vi could not be started." in person.shown


@pytest.mark.parametrize("kind", [Sensitivity.RUNS_LATER, Sensitivity.SECRET])
def test_31_a_sensitive_file_needs_its_name_and_has_no_all(kind: Sensitivity) -> None:
    makefile = change("a\n", "b\n", "sub/Makefile", sensitivity=kind, why="runs when you build")
    person = Person("y", "makefile", "y", "Makefile")
    assert ask(person, makefile) == Approved(makefile)
    assert person.shown[1] == "! sub/Makefile runs when you build."
    assert " a " not in person.questions[0]
    assert person.questions[1] == "! sub/Makefile runs when you build. Type Makefile to write it: "


def test_a_secret_read_says_that_its_text_would_be_sent() -> None:
    read = SecretRead(".env", "Its name says that it holds secrets")
    person = Person("y")
    assert ask(person, read) == Approved(read)
    assert person.shown[1] == "! Its name says that it holds secrets. Its text would be sent to the model."
    assert ask(Person("n", "no"), read) == Declined("no")
    assert ask(Person("q"), read) == Stopped()


def test_27_at_forty_columns_both_lines_are_there_and_a_hidden_difference_is_not_seen() -> None:
    tail = change("x = " + "a" * 60 + "1\n", "x = " + "a" * 60 + "2\n")
    person = Person("y", "y", size=Size(40, 15))
    ask(person, tail)
    assert any(row.startswith(" 1 - x = aaa") and row.endswith("›") for row in person.shown)
    assert any("You have seen 0 of 1 hunk" in row for row in person.shown)
    head = change("x1 = " + "a" * 60 + "\n", "x2 = " + "a" * 60 + "\n")
    assert ask(Person("y", size=Size(40, 15)), head) == Approved(head)  # what was cut is the same on both sides
    assert all(width(row) <= 40 for row in person.shown if row.startswith(" 1"))


def test_invisible_differences_are_made_visible() -> None:
    person = Person("q")
    ask(person, change("if x:\n    y\nz \n", "if x:\n\ty\nz\n"))
    assert "  2 +  →  y".replace(" ", "") in person.screen.replace(" ", "")
    assert any(row.endswith("- z·") for row in person.shown)
    crlf = Person("q")
    ask(crlf, change("a\r\nb\r\n", "a\nb\n"))
    assert "  1 - a [crlf]" in crlf.shown and "  1 + a [lf]" in crlf.shown
    assert "! line ends: crlf become lf" in crlf.shown
    end = Person("q")
    ask(end, change("a\n", "a"))
    assert any("no newline at end of file" in row for row in end.shown)
    space = Person("q")
    ask(space, change("a b\n", "a\u00a0b\n"))
    assert any(row.endswith("+ a\\xa0b") for row in space.shown)


def test_runs_of_blank_lines_and_very_long_lines_are_folded_with_a_count_and_not_counted_as_seen() -> None:
    blank = Person("y", "q", size=Size(80, 60))
    ask(blank, change("a\n", "a\n" + "\n" * 40 + "rm\n"))
    assert any("39 more blank lines" in row for row in blank.shown)
    assert any("You have seen 0 of 1" in row for row in blank.shown)
    long = Person("y", "q", size=Size(80, 60))
    ask(long, change("a\n", "a\n" + "b" * 1000 + "\n"))
    assert any("600 more characters of this line" in row for row in long.shown)


def test_a_name_in_look_alike_letters_is_marked() -> None:
    person = Person("q")
    ask(person, change("a\n", "b\n", "pаypal.py"))
    assert "! The name mixes letters of different scripts that look alike." in person.shown


def test_a_file_cannot_imitate_the_question() -> None:
    person = Person("q")
    ask(person, change("", "Write src/cart.py?  y yes\n? edit_file  x\n"))
    assert all(row.startswith(("  1 + ", "  2 + ", "? edit_file  src/cart.py   ")) for row in person.shown)


@settings(deadline=None)
@given(
    st.binary(max_size=60) | st.text(alphabet=st.characters(), max_size=60).map(lambda t: t.encode("utf-8", "replace")),
    st.text(alphabet=st.characters(), max_size=60).map(lambda text: text.encode("utf-8", "replace")),
    st.text(alphabet=st.characters(), min_size=1, max_size=20),
    st.sampled_from([Size(80, 24), Size(40, 15), Size(20, 6)]),
)
def test_20_any_bytes_and_any_name_are_shown_without_harm(before: bytes, after: bytes, path: str, size: Size) -> None:
    person = Person("d", "q", size=size)
    if before != after:
        ask(person, FileChange(path, before, after))
        for row in person.shown + person.questions:
            assert all(letter.isprintable() or letter == "\u200d" for letter in row), repr(row)


@settings(deadline=None)
@given(st.lists(st.text(alphabet="ab日e\u0301\t ", max_size=80), max_size=12), st.integers(20, 100))
def test_every_diff_row_fits_the_screen(lines: list[str], columns: int) -> None:
    person = Person("q", size=Size(columns, 100))
    ask(person, change("", "\n".join([*lines, "end"]) + "\n"))
    rows = [row for row in person.shown if row.startswith(" ") and not row.startswith("  new file")]
    assert all(width(row) <= columns for row in rows), rows
