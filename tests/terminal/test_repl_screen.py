"""The REPL as a person meets it, on a pseudo-terminal. Numbers are those of the forty statements."""

import fcntl
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gemcode.terminal.commands import COMMANDS
from tests.terminal.program import CODE, MARKDOWN
from tests.terminal.pty_screen import CTRL_C, CTRL_D, CTRL_Z, ENTER, ESCAPE, PtyScreen

DEAF = 0.45  # a little more than the time in which a question hears nothing


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "cart.py").write_text("a\nb\nc\n")
    (root / "large.txt").write_text("\n".join(f"line {n}" for n in range(800)) + "\n")
    return root


def start(scenario: str, project: Path, columns: int = 80, rows: int = 24, **environ: str) -> PtyScreen:
    return PtyScreen([sys.executable, "-m", "tests.terminal.program", scenario, str(project)], columns, rows, environ)


def requests(project: Path) -> list[str]:
    record = project.parent / "requests.txt"
    return record.read_text().splitlines() if record.exists() else []


def prompt_is_ready(screen: PtyScreen, times: int = 1) -> None:
    screen.wait_until(
        lambda: sum(row.startswith(">") for row in screen.all()) >= times and screen.visible()[-1] == ">", what="prompt"
    )


def question(screen: PtyScreen, beginning: str = "Write") -> None:
    """Wait for a question and for the time in which it is deaf."""
    screen.wait_until(lambda: bool(screen.visible()) and screen.visible()[-1].startswith(beginning), what="question")
    time.sleep(DEAF)


def leave(screen: PtyScreen) -> None:
    prompt_is_ready(screen)
    screen.type(CTRL_D)
    assert screen.wait_for_end() == 0
    assert screen.modes_after() == screen.modes_before
    assert not screen.cursor_hidden()
    assert screen.raw.rfind(b"\x1b[?2004l") > screen.raw.rfind(b"\x1b[?2004h")


def test_01_the_prompt_comes_after_few_lines_and_without_a_request(project: Path) -> None:
    with start("hello", project) as screen:
        prompt_is_ready(screen)
        assert screen.visible() == ["gemcode 1.0  scripted  ~/shop", "approve: ask   /help for help", ">"]
        assert requests(project) == []
        leave(screen)


def test_02_neither_alternate_screen_nor_mouse_is_ever_used(project: Path) -> None:
    with start("write", project) as screen:
        prompt_is_ready(screen)
        screen.type("go" + ENTER)
        question(screen)
        screen.type("y")
        prompt_is_ready(screen, 2)
        leave(screen)
        assert not re.search(rb"\x1b\[\?(?:1049|47|1047|1000|1002|1003|1006)h", screen.raw)


def test_04_slash_opens_a_small_menu_and_escape_closes_it(project: Path) -> None:
    with start("hello", project) as screen:
        prompt_is_ready(screen)
        screen.type("/")
        screen.wait_for(r"^ */help +this list")
        rows = [row for row in screen.visible() if row.strip().startswith("/")]
        assert 1 < len(rows) <= 8
        assert len({row.split()[0] for row in rows}) == len(rows)
        screen.type(ESCAPE)
        screen.wait_until(lambda: "this list" not in screen.text())
        assert screen.text().count("gemcode 1.0") == 1
        screen.type(CTRL_C)
        leave(screen)


def test_05_tab_completes_a_command_and_an_unknown_one_names_the_nearest(project: Path) -> None:
    with start("hello", project) as screen:
        prompt_is_ready(screen)
        screen.type("/mo\t")
        screen.wait_for(r"^> /model")
        screen.type(ENTER)
        screen.wait_for("> scripted +the one and only\n>$")
        screen.type("/modle" + ENTER)
        screen.wait_for("Unknown command /modle.\n  Did you mean /model?")
        leave(screen)
        assert requests(project) == []


def test_06_at_completes_files_and_a_missing_one_sends_nothing(project: Path) -> None:
    with start("hello", project) as screen:
        prompt_is_ready(screen)
        screen.type("see @sr")
        screen.wait_for(r"src/cart\.py")
        screen.type("\t\t")
        screen.wait_for(r"^> see @src/app\.py")
        screen.type(CTRL_C)
        screen.type("see @nothing" + ENTER)
        screen.wait_for("@nothing does not exist.\n  Did you mean")
        assert requests(project) == []
        leave(screen)


@pytest.mark.parametrize("newline", ["\x1b\r", "\n", "\\\r"], ids=["alt-enter", "c-j", "backslash"])
def test_07_a_newline_can_be_typed(project: Path, newline: str) -> None:
    with start("hello", project) as screen:
        prompt_is_ready(screen)
        screen.type("one")
        screen.type(newline)
        screen.wait_until(lambda: screen.raw.count(b"one") > 0)
        time.sleep(0.4)
        screen.type("two")
        screen.wait_for(r"^  two")
        screen.type(ENTER)
        screen.wait_for("Hello there.")
        assert requests(project) == ["1 'one\\ntwo'"]


def test_08_a_long_paste_is_a_placeholder_and_is_sent_whole(project: Path) -> None:
    text = "\n".join(f"line {n}" for n in range(200))
    with start("hello", project) as screen:
        prompt_is_ready(screen)
        screen.paste(text)
        screen.wait_for(r"^> \[Pasted text #1, 200 lines\]$")
        assert requests(project) == []
        screen.type(ENTER)
        screen.wait_for("Hello there.")
        assert requests(project) == [f"1 {text!r}"]
        leave(screen)


def test_09_pasted_lines_never_send_and_a_pasted_command_does_not_run(project: Path) -> None:
    with start("hello", project) as screen:
        prompt_is_ready(screen)
        screen.paste("/quit\rfoo\r")
        screen.wait_for(r"^> /quit\n  foo")
        time.sleep(0.3)
        assert screen.child.poll() is None and requests(project) == []
        screen.type(CTRL_C)
        leave(screen)


def test_10_up_recalls_the_last_prompt_after_a_restart_and_search_finds_it(project: Path) -> None:
    with start("hello", project) as screen:
        prompt_is_ready(screen)
        screen.type("first words" + ENTER)
        prompt_is_ready(screen, 2)
        leave(screen)
    with start("hello", project) as screen:
        prompt_is_ready(screen)
        screen.type("\x1b[A")
        screen.wait_for(r"^> first words")
        screen.type(CTRL_C)
        screen.wait_until(lambda: "first words" not in screen.text())
        screen.type("\x12wor")
        screen.wait_for("first words")


def test_11_ctrl_c_clears_and_ctrl_y_restores_and_only_two_on_empty_leave(project: Path) -> None:
    with start("hello", project) as screen:
        prompt_is_ready(screen)
        screen.type("some words")
        screen.wait_for("some words")
        screen.type(CTRL_C)
        screen.wait_until(lambda: "some words" not in screen.text())
        screen.type("\x19")
        screen.wait_for("some words")
        screen.type(CTRL_C)
        screen.wait_until(lambda: "some words" not in screen.text())
        screen.type(CTRL_C)
        screen.wait_for("Press Ctrl-C again to leave")
        prompt_is_ready(screen, 2)
        assert screen.child.poll() is None
        screen.type(CTRL_C)
        assert screen.wait_for_end() == 0


def test_16_and_17_code_is_shown_as_it_is_and_lists_are_nested(project: Path) -> None:
    with start("markdown", project) as screen:
        prompt_is_ready(screen)
        screen.type("show" + ENTER)
        prompt_is_ready(screen, 2)
        rows = screen.all()
        assert CODE.expandtabs(8) in "\n".join(rows)
        indents = [next(row.index("•") for row in rows if word in row) for word in ("one", "two", "three")]
        assert [b - a for a, b in pairwise(indents)] == [3, 3]
        assert any("[x] done" in row for row in rows) and any("[ ] open" in row for row in rows)
        assert not any("```" in row for row in rows)


def test_18_and_19_keys_do_not_show_while_it_streams_and_ctrl_c_cancels_at_once(project: Path) -> None:
    with start("slow", project) as screen:
        prompt_is_ready(screen)
        screen.type("go" + ENTER)
        screen.wait_for("Second par")
        screen.type("xyzzy")
        time.sleep(0.3)
        assert "xyzzy" not in screen.text()
        screen.type(CTRL_C)
        text = screen.wait_for("cancelled after .*Nothing was written. Your prompt is kept: press Up.")
        prompt_is_ready(screen, 2)
        assert text.count("Start of it.") == 1 and text.count("Second par") == 1
        assert "xyzzy" not in screen.text()
        screen.type("again" + ENTER)
        screen.wait_for("After cancel.")
        assert requests(project) == ["1 'go'", "1 'again'"]
        leave(screen)


def test_escape_cancels_too_but_an_arrow_key_does_not(project: Path) -> None:
    with start("silent", project) as screen:
        prompt_is_ready(screen)
        screen.type("go" + ENTER)
        screen.wait_for("waiting for scripted  .*Ctrl-C cancels")
        screen.type("\x1b[A")
        time.sleep(0.3)
        assert "cancelled" not in screen.text()
        screen.type(ESCAPE)
        screen.wait_for("cancelled after")
        prompt_is_ready(screen, 2)
        leave(screen)


def test_20_no_sequence_of_others_reaches_the_terminal(project: Path) -> None:
    with start("hostile", project) as screen:
        prompt_is_ready(screen)
        screen.type("go" + ENTER)
        text = screen.wait_for(r"a\\x1b\]52;c;aGk=\\x07b")
        assert "\\u{202e}" in text and "\\x9b31m" in text
        prompt_is_ready(screen, 2)
        screen.type("go" + ENTER)
        question(screen)
        assert "a\\x1b[2J.txt" in screen.text()
        screen.type("y")
        prompt_is_ready(screen, 3)
        for sequence in (b"\x1b]", b"\x1b[2J", "\x9b".encode(), "\u202e".encode()):
            assert sequence not in screen.raw


def test_21_each_call_gives_one_line_in_call_order(project: Path) -> None:
    with start("reads", project) as screen:
        prompt_is_ready(screen)
        screen.type("go" + ENTER)
        prompt_is_ready(screen, 2)
        lines = [row for row in screen.all() if row.startswith("✓ read_file")]
        assert [re.search(r"f(\d)\.txt +120 lines", row)[1] for row in lines] == [str(n) for n in range(10)]  # type: ignore[index]


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40), (40, 15)])
def test_22_and_27_the_question_is_last_and_both_lines_are_visible(project: Path, columns: int, rows: int) -> None:
    with start("write", project, columns, rows) as screen:
        prompt_is_ready(screen)
        screen.type("go" + ENTER)
        question(screen)
        visible = screen.visible()
        assert re.search(r"2 - b$", "\n".join(visible), re.MULTILINE)
        assert re.search(r"2 \+ B$", "\n".join(visible), re.MULTILINE)
        for letter in "yneadq":
            assert re.search(rf"\b{letter}\b", visible[-1])


def test_23_what_is_typed_or_pasted_before_or_with_the_question_writes_nothing(project: Path) -> None:
    with start("write", project) as screen:
        prompt_is_ready(screen)
        screen.type("go" + ENTER)
        screen.type("yyy")  # before the question
        screen.wait_until(lambda: screen.visible()[-1].startswith("Write"))
        screen.type("y")  # at once
        time.sleep(DEAF)
        screen.type(ENTER)
        screen.type(" ")
        screen.paste("y\ny\n")
        screen.paste("y")
        screen.type("yy")  # two at once: a paste without brackets
        time.sleep(0.3)
        assert (project / "cart.py").read_text() == "a\nb\nc\n"
        assert screen.visible()[-1].startswith("Write cart.py?")
        screen.type("y")
        screen.wait_for("Done with it.")
        assert (project / "cart.py").read_text() == "a\nB\nc\n"
        leave(screen)


def test_ctrl_l_in_a_question_shows_again_what_it_is_about(project: Path) -> None:
    with start("write", project) as screen:
        prompt_is_ready(screen)
        screen.type("go" + ENTER)
        question(screen)
        screen.type("\x0c")
        screen.wait_until(lambda: screen.visible()[0].startswith("? write_file"), what="the header on top")
        question(screen)
        assert "  2 + B" in "\n".join(screen.visible())
        assert sum(row.startswith("Write") for row in screen.visible()) == 1
        screen.type("y")
        screen.wait_for("Done with it.")
        leave(screen)


def test_24_and_32_no_asks_for_a_reason_that_reaches_the_model_and_the_turn_goes_on(project: Path) -> None:
    with start("write", project) as screen:
        prompt_is_ready(screen)
        screen.type("go" + ENTER)
        question(screen)
        screen.type("n")
        screen.wait_for(r"Reason for the model \(Enter for none\): *$")
        screen.type("keep the public name" + ENTER)
        screen.wait_for("✗ write_file +cart.py +declined: keep the public name")
        prompt_is_ready(screen, 2)
        assert "Done with it." in screen.text()
        assert "written" not in screen.text()
        assert "keep the public name" in requests(project)[1]
        assert (project / "cart.py").read_text() == "a\nb\nc\n"
        leave(screen)


@pytest.mark.parametrize("key", [CTRL_C, CTRL_D, "q"])
def test_25_stopping_a_question_writes_nothing_and_ends_the_turn(project: Path, key: str) -> None:
    before = (project / "cart.py").stat()
    with start("write", project) as screen:
        prompt_is_ready(screen)
        screen.type("go" + ENTER)
        question(screen)
        screen.type(key)
        screen.wait_for("Nothing was written")
        prompt_is_ready(screen, 2)
        after = (project / "cart.py").stat()
        assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)
        assert len(requests(project)) == 1
        leave(screen)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("scenario", ["write", "slow", "hello"])
def test_25_signals_end_it_with_the_terminal_as_it_was(project: Path, number: signal.Signals, scenario: str) -> None:
    with start(scenario, project) as screen:
        prompt_is_ready(screen)
        if scenario != "hello":
            screen.type("go" + ENTER)
            screen.wait_for({"write": "^Write", "slow": "Second par"}[scenario])
        screen.signal(number)
        assert screen.wait_for_end() == 128 + number
        assert (project / "cart.py").read_text() == "a\nb\nc\n"
        assert screen.modes_after() == screen.modes_before
        assert not screen.cursor_hidden()
        assert "Traceback" not in screen.text()


def test_26_a_large_change_says_what_is_not_shown_and_yes_must_be_said_twice(project: Path) -> None:
    with start("large", project) as screen:
        prompt_is_ready(screen)
        screen.type("go" + ENTER)
        question(screen)
        assert re.search(r"… \d+ more hunks, \d+ lines not shown", screen.text())
        screen.type("y")
        screen.wait_for(r"You have seen \d+ of 80 hunks. Press y again to write all, d to see them.")
        assert "changed" not in (project / "large.txt").read_text()
        question(screen)
        screen.type("d")
        screen.wait_for(r"790 \+ changed 790|791 \+ changed 790")
        question(screen)
        text = screen.text()
        assert all(f"+ changed {n}\n" in text for n in range(0, 800, 10))
        assert len(screen.visible()[-1]) <= 80
        screen.type("y")
        screen.wait_for("Large done.")
        assert "changed 790" in (project / "large.txt").read_text()


def test_27_a_line_too_long_for_the_screen_does_not_pass_with_one_yes(project: Path) -> None:
    with start("long", project) as screen:
        prompt_is_ready(screen)
        screen.type("go" + ENTER)
        question(screen)
        assert "300 more characters of this line" in screen.text()
        screen.type("y")
        screen.wait_for("You have seen 0 of 1 hunk")
        assert (project / "cart.py").read_text() == "a\nb\nc\n"


def test_28_a_new_file_says_so_and_declining_leaves_no_directory(project: Path) -> None:
    with start("new", project, 120, 40) as screen:
        prompt_is_ready(screen)
        screen.type("go" + ENTER)
        question(screen)
        assert "? write_file  docs/new/api.md   new file, 42 lines, creates docs/, docs/new/" in screen.text()
        screen.type(ESCAPE)
        screen.wait_for("✗ write_file +docs/new/api.md +declined")
        assert not (project / "docs").exists()


def test_30_hunks_can_be_chosen(project: Path) -> None:
    before = (project / "large.txt").read_text()
    with start("large", project, 100, 40) as screen:
        prompt_is_ready(screen)
        screen.type("go" + ENTER)
        question(screen)
        screen.type("h")
        question(screen, "Hunk 1 of 80")
        screen.type("y")
        question(screen, "Hunk 2 of 80")
        screen.type("n")
        question(screen, "Hunk 3 of 80")
        screen.type("y")
        question(screen, "Hunk 4 of 80")
        screen.type("d")
        screen.wait_for(r"Taken: 2 of 80 hunks \(\+2 -2\)")
        question(screen)
        screen.type("y")
        screen.wait_for("Large done.")
    after = before.replace("line 0\n", "changed 0\n", 1).replace("line 20\n", "changed 20\n", 1)
    assert (project / "large.txt").read_text() == after


def test_31_all_lasts_one_turn_and_does_not_cover_what_runs_later(project: Path) -> None:
    with start("makefile", project, 100, 40) as screen:
        prompt_is_ready(screen)
        screen.type("go" + ENTER)
        question(screen, "Write one.py?")
        screen.type("a")
        question(screen, "Write Makefile?")
        assert (project / "one.py").exists()
        assert "! Makefile runs when you build." in screen.text()
        assert not re.search(r"\ba\b", screen.visible()[-1])
        screen.type("y")
        screen.wait_for("Type Makefile to write it: *$")
        screen.paste("Makefile")
        time.sleep(0.2)
        screen.type(ENTER)
        screen.wait_for("That is not its name. Nothing was written.")
        assert not (project / "Makefile").exists()
        question(screen, "Write Makefile?")
        screen.type("y")
        screen.wait_until(lambda: screen.visible()[-1].endswith("Type Makefile to write it:"))
        screen.type("Makefile" + ENTER)
        screen.wait_for("Done.")
        assert (project / "Makefile").exists()
        prompt_is_ready(screen, 2)
        screen.type("again" + ENTER)
        question(screen, "Write two.py?")


def test_33_a_wait_counts_down_and_one_line_remains(project: Path) -> None:
    with start("limit", project) as screen:
        prompt_is_ready(screen)
        screen.type("go" + ENTER)
        screen.wait_for(r"! Limit of 10 requests per minute reached. Try 2 of 5 in 3 s  \(Ctrl-C cancels\)")
        screen.wait_for("in 2 s")
        text = screen.wait_for("After the wait.")
        assert "· waited 3 s: Limit of 10 requests per minute reached" in text
        assert "Try 2 of 5" not in text


def test_33_ctrl_c_ends_the_wait(project: Path) -> None:
    with start("limit", project) as screen:
        prompt_is_ready(screen)
        screen.type("go" + ENTER)
        screen.wait_for("in 3 s")
        screen.type(CTRL_C)
        screen.wait_for("cancelled after")
        prompt_is_ready(screen, 2)


def test_a_text_that_a_retry_made_void_is_said_to_be_so(project: Path) -> None:
    with start("retry", project) as screen:
        prompt_is_ready(screen)
        screen.type("go" + ENTER)
        text = screen.wait_for("The whole answer.")
        assert (
            text.index("Half an ans")
            < text.index("· The text above was cut off and is void.")
            < text.index("The whole")
        )


def test_34_an_error_is_one_sentence_and_a_hint_and_the_prompt_comes_back_with_up(project: Path) -> None:
    with start("error", project) as screen:
        prompt_is_ready(screen)
        screen.type("my words" + ENTER)
        text = screen.wait_for("✗ Cannot reach the API: name not resolved.\n  Are you offline\\?")
        assert "{" not in text and "Traceback" not in text
        prompt_is_ready(screen, 2)
        screen.type("\x1b[A")
        screen.wait_until(lambda: screen.visible()[-1] == "> my words")


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_36_and_37_the_status_line_fits_and_leaving_names_the_way_back(project: Path, columns: int) -> None:
    with start("hello", project, columns) as screen:
        prompt_is_ready(screen)
        screen.type("go" + ENTER)
        screen.wait_for(r"^scripted  in 10  out 5")
        leave(screen)
        assert "gemcode chat --resume 7f3k" in screen.text().replace("\n", "")


def test_38_no_color_means_no_colour(project: Path) -> None:
    with start("write", project, NO_COLOR="1") as screen:
        prompt_is_ready(screen)
        screen.type("go" + ENTER)
        question(screen)
        screen.type("y")
        prompt_is_ready(screen, 2)
        leave(screen)
        assert not re.search(rb"\x1b\[[0-9;]*\b(?:3[0-7]|4[0-7]|9[0-7]|38|48)\b[0-9;]*m", screen.raw)


@pytest.mark.parametrize("environ", [{"TERM": "dumb"}, {"GEMCODE_PLAIN": "1", "NO_COLOR": "1"}])
def test_38_linear_mode_confirms_by_a_letter_and_enter(project: Path, environ: dict[str, str]) -> None:
    with start("write", project, **environ) as screen:
        prompt_is_ready(screen)
        screen.type("go\n")
        screen.type("y\n")
        question(screen)
        screen.type("\n")
        question(screen)
        assert (project / "cart.py").read_text() == "a\nb\nc\n"
        screen.type("y\n")
        screen.wait_for("Done with it.")
        assert (project / "cart.py").read_text() == "a\nB\nc\n"
        prompt_is_ready(screen, 2)
        screen.type(CTRL_D)
        assert screen.wait_for_end() == 0
        assert screen.modes_after() == screen.modes_before
        if environ.get("TERM") == "dumb":
            assert b"\x1b" not in screen.raw


def test_38_and_39_in_pipes_there_is_no_escape_no_question_and_no_hang(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.terminal.program", "write", str(project)],
        input=b"go\n/help\n",
        capture_output=True,
        timeout=60,
        env={"PATH": os.environ["PATH"], "FORCE_COLOR": "1", "LANG": "C.UTF-8"},
    )
    assert done.returncode == 0, done.stderr
    assert not re.search(rb"\x1b(?!\[[0-9;]*m)", done.stdout)
    assert b"/approve" in done.stdout
    assert (project / "cart.py").read_text() == "a\nb\nc\n"


def test_40_a_secret_is_asked_for_and_the_terminal_is_as_before(project: Path) -> None:
    with start("secret", project) as screen:
        prompt_is_ready(screen)
        screen.type("go" + ENTER)
        question(screen, "Let the model read .env?")
        assert "Its text would be sent to the model." in screen.text()
        screen.type("y")
        screen.wait_for("✓ read_file +.env +120 lines")
        leave(screen)


def test_shift_tab_switches_between_ask_and_edits_and_says_so(project: Path) -> None:
    with start("write", project) as screen:
        prompt_is_ready(screen)
        screen.type("\x1b[Z")
        screen.wait_for(r"approve: edits\. Ordinary writes pass.*still\n  ask\.$")
        prompt_is_ready(screen)
        screen.type("go" + ENTER)
        screen.wait_for("Done with it.")
        assert (project / "cart.py").read_text() == "a\nB\nc\n"
        prompt_is_ready(screen)
        screen.type("\x1b[Z")
        screen.wait_for("approve: ask. Every write is shown")
        prompt_is_ready(screen)
        leave(screen)


def test_commands_answer(project: Path) -> None:
    with start("hello", project, 100, 60) as screen:
        prompt_is_ready(screen)
        for typed, answer in (
            ("/help", "/quit +leave"),
            ("/help undo", "e.g. /undo turn"),
            ("/undo", "cart.py restored"),
            ("/cost", r"Spent \$0.00 in 0 turns"),
            ("/cost 1.00", r"Limit: \$1.00"),
            ("/cost much", "much is not an amount"),
            ("/approve none", "Read-only: the model cannot write"),
            ("/approve sometimes", "no approval mode sometimes"),
            ("/save a.md", "Saved to a.md"),
            ("/copy", "no answer to copy yet"),
            ("!echo from the shell", "^from the shell"),
            ("!exit 3", "exit code 3"),
            ("!test -t 1 && echo on a terminal", "^on a terminal"),
        ):
            screen.type(typed + ENTER)
            screen.wait_for(answer)
            prompt_is_ready(screen)
        screen.type("/resume" + ENTER)
        screen.wait_for("1  14:02 today   why does the total differ\\?.*6 turns  2 files")
        screen.wait_for("Number, or Enter to stay: *$")
        screen.type("1" + ENTER)
        screen.wait_for("Resumed 7f3k.")
        prompt_is_ready(screen)
        screen.type("/compact" + ENTER)
        time.sleep(0.3)
        screen.type(CTRL_C)
        screen.wait_for("Cancelled. The conversation is as it was.")
        leave(screen)


def test_the_output_of_a_shell_command_goes_along_when_it_is_asked_for(project: Path) -> None:
    with start("hello", project) as screen:
        prompt_is_ready(screen)
        screen.type("what does @! mean" + ENTER)
        screen.wait_for("there is none yet")
        prompt_is_ready(screen)
        screen.type("!printf '\\033[1mone\\033[0m\\ntwo\\n'" + ENTER)
        screen.wait_for("· 2 lines; write @! in a prompt to send them")
        assert requests(project) == []
        screen.type("what does @! mean" + ENTER)
        screen.wait_for("Hello there.")
        (request,) = requests(project)
        assert "@! mean" in request and "```\\none\\ntwo\\n```" in request and "x1b" not in request


def test_the_editor_changes_the_proposal(project: Path) -> None:
    editor = project.parent / "editor.sh"
    editor.write_text('#!/bin/sh\nprintf "a\\nedited\\nc\\n" > "$1"\n')
    editor.chmod(0o755)
    with start("write", project, EDITOR=str(editor)) as screen:
        prompt_is_ready(screen)
        screen.type("go" + ENTER)
        question(screen)
        screen.type("e")
        screen.wait_for(r"2 \+ edited")
        assert "(edited by you)" in screen.text()
        question(screen)
        screen.type("y")
        screen.wait_for("Done with it.")
        assert (project / "cart.py").read_text() == "a\nedited\nc\n"
        leave(screen)


def test_ctrl_z_suspends_a_turn_and_fg_brings_it_back(project: Path) -> None:
    with start("silent", project) as screen:
        prompt_is_ready(screen)
        screen.type("go" + ENTER)
        screen.wait_for("waiting for scripted")
        screen.type("\x1a")
        screen.wait_until(lambda: _state(screen.child.pid) == "T", what="stopped")
        assert screen.modes_after() == screen.modes_before
        screen.signal(signal.SIGCONT)
        screen.wait_until(lambda: _state(screen.child.pid) != "T")
        time.sleep(0.3)
        screen.type(CTRL_C)
        screen.wait_for("cancelled after")
        leave(screen)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_first_prompt_is_shown_and_answered(project: Path) -> None:
    with start("hello", project, FIRST="say hello") as screen:
        screen.wait_for("> say hello\nHello there.")
        leave(screen)


def test_help_fits_eighty_columns_and_every_command_has_an_example(project: Path) -> None:
    with start("hello", project, 80, 40) as screen:
        prompt_is_ready(screen)
        screen.type("?")
        screen.wait_for("/help COMMAND shows an example")
        rows = screen.visible()
        assert all(rows[rows.index("> /help") + 1 + number].startswith(name) for number, name in enumerate(COMMANDS))
        leave(screen)
    assert all(len(f"{name:<10} {command.summary}") <= 80 for name, command in COMMANDS.items())
    assert all(command.example.startswith(name) for name, command in COMMANDS.items())


def test_ask_streams_on_a_terminal_and_confirms_there(project: Path) -> None:
    with start("ask:write", project) as screen:
        question(screen)
        screen.type("y")
        assert screen.wait_for_end() == 0
        assert screen.visible()[-4].startswith("✓ write_file    cart.py               written")
        assert screen.visible()[-3:-1] == [
            "Done with it.",
            "· cart.py written (+1 -1)  Undo: gemcode undo",
        ]
        assert screen.modes_after() == screen.modes_before


def test_ask_can_be_cancelled(project: Path) -> None:
    with start("ask:silent", project) as screen:
        screen.wait_for("waiting for scripted .*Ctrl-C cancels")
        screen.type(CTRL_C)
        assert screen.wait_for_end() == 130
        assert "waiting" not in screen.text() and "Traceback" not in screen.text()
        assert screen.modes_after() == screen.modes_before


def test_39_ask_into_a_closed_pipe_exits_141_without_a_word(project: Path) -> None:
    command = [sys.executable, "-m", "tests.terminal.program", "ask:paragraphs", str(project)]
    environ = {"PATH": os.environ["PATH"], "FORMAT": "stream-json"}
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environ
    )
    assert child.stdout is not None and child.stderr is not None
    child.stdout.readline()
    child.stdout.close()
    assert child.wait(60) == 141
    assert child.stderr.read() == b""
    child.stderr.close()


def test_39_ask_into_a_pipe_prints_the_answer_alone(project: Path) -> None:
    command = [sys.executable, "-m", "tests.terminal.program", "ask:markdown", str(project)]
    environ = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "FORCE_COLOR": "0"}
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, env=environ)
    assert done.stdout.decode() == MARKDOWN
    assert b"\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize("scenario", ["hello", "slow", "write"])
def test_a_terminal_that_goes_away_ends_it_and_writes_nothing(project: Path, scenario: str) -> None:
    with start(scenario, project) as screen:
        prompt_is_ready(screen)
        if scenario != "hello":
            screen.type("go" + ENTER)
            screen.wait_for({"write": "^Write", "slow": "Second par"}[scenario])
        screen.hang_up()
        assert screen.child.wait(30) in (129, 141)
    assert (project / "cart.py").read_text() == "a\nb\nc\n"


def test_an_interrupt_from_outside_is_as_good_as_the_key(project: Path) -> None:
    with start("slow", project) as screen:
        prompt_is_ready(screen)
        screen.type("words")
        screen.wait_for("words")
        screen.signal(signal.SIGINT)
        screen.wait_until(lambda: "words" not in screen.text())
        screen.type("go" + ENTER)
        screen.wait_for("Second par")
        screen.signal(signal.SIGINT)
        screen.wait_for("cancelled after")
        prompt_is_ready(screen, 2)
        screen.signal(signal.SIGINT)
        screen.wait_for("Press Ctrl-C again to leave")
        prompt_is_ready(screen, 3)
        screen.signal(signal.SIGINT)
        assert screen.wait_for_end() == 0


def test_enter_between_two_prompts_is_enter_and_nothing_typed_there_shows(project: Path, tmp_path: Path) -> None:
    with start("hello", project, SLOW=str(tmp_path)) as screen:
        prompt_is_ready(screen)
        screen.type("/doctor" + ENTER)
        screen.wait_until((tmp_path / "running").exists, what="the command")
        screen.type("hello" + ENTER)
        screen.wait_until(lambda: waiting_input(screen) == 6, what="the keys in the terminal")
        assert "hello" not in screen.text()
        (tmp_path / "go").touch()
        screen.wait_for("Hello there.")
        assert requests(project) == ["1 'hello'"]
        assert screen.text().count("hello") == 1
        leave(screen)


def waiting_input(screen: PtyScreen) -> int:
    """Bytes that were typed and not yet read."""
    return struct.unpack("i", fcntl.ioctl(screen.slave, termios.FIONREAD, b"\0" * 4))[0]


def test_the_persons_own_programs_get_their_own_modes(project: Path, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text(f"#!/bin/sh\nstty -g > {tmp_path}/in-editor\n")
    editor.chmod(0o755)
    with start("write", project, EDITOR=str(editor)) as screen:
        before = as_stty_says(screen.modes_before)
        prompt_is_ready(screen)
        screen.type(f"!stty -g > {tmp_path}/in-shell" + ENTER)
        screen.wait_until(lambda: filled(tmp_path / "in-shell"), what="the command")
        prompt_is_ready(screen, 2)
        screen.type("go" + ENTER)
        question(screen)
        screen.type("e")
        screen.wait_for("Not changed in the editor.")
        question(screen)
        screen.type("n")
        screen.wait_for("Reason")
        screen.type(ENTER)
        prompt_is_ready(screen, 3)
        leave(screen)
    assert (tmp_path / "in-shell").read_text().strip() == before
    assert (tmp_path / "in-editor").read_text().strip() == before


def filled(path: Path) -> bool:
    return path.exists() and path.read_text().endswith("\n")


def as_stty_says(modes: list[Any]) -> str:
    """What stty calls these modes, asked on a terminal of its own."""
    master, slave = os.openpty()
    try:
        termios.tcsetattr(slave, termios.TCSANOW, modes)
        return subprocess.run(["stty", "-g"], stdin=slave, capture_output=True, text=True, check=True).stdout.strip()
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.parametrize("place", ["command", "turn"])
def test_a_stopped_program_leaves_the_terminal_as_the_person_had_it(project: Path, tmp_path: Path, place: str) -> None:
    with start("slow", project, SLOW=str(tmp_path)) as screen:
        prompt_is_ready(screen)
        screen.type(("/doctor" if place == "command" else "go") + ENTER)
        if place == "command":
            screen.wait_until((tmp_path / "running").exists, what="the command")
        else:
            screen.wait_for("Second par")
        screen.type(CTRL_Z)
        screen.wait_until(lambda: state(screen) == "T", what="the stop")
        assert screen.modes_after() == screen.modes_before
        screen.signal(signal.SIGCONT)
        screen.wait_until(lambda: state(screen) != "T" and not echoes(screen), what="our modes")
        (tmp_path / "go").touch()
        screen.wait_for("all well") if place == "command" else screen.type(CTRL_C)
        prompt_is_ready(screen, 2)
        leave(screen)


def state(screen: PtyScreen) -> str:
    return Path(f"/proc/{screen.child.pid}/stat").read_text().rpartition(")")[2].split()[0]


def echoes(screen: PtyScreen) -> bool:
    return bool(screen.modes_after()[3] & termios.ECHO)


def test_10_the_search_is_right_below_the_line(project: Path) -> None:
    with start("hello", project) as screen:
        prompt_is_ready(screen)
        screen.type("find me later" + ENTER)
        prompt_is_ready(screen, 2)
        screen.type("\x12late")
        screen.wait_for("^> find me later$\nI-search backward: late")
        screen.type(CTRL_C)
        leave(screen)


@pytest.mark.parametrize(
    ("command", "keys", "said"),
    [
        ("printf abc", "", "begun\nabc\n· 2 lines; write"),
        ("sleep 60", CTRL_C, "^C\n· interrupted"),
    ],
)
def test_what_is_said_of_a_command_has_a_line_of_its_own(project: Path, command: str, keys: str, said: str) -> None:
    with start("hello", project) as screen:
        prompt_is_ready(screen)
        screen.type(f"!echo begun; {command}" + ENTER)
        screen.wait_for("^begun")
        screen.type(keys)
        prompt_is_ready(screen, 2)
        assert said in screen.text()
        leave(screen)
