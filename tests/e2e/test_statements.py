"""The forty statements about the terminal, on the whole program. Numbers are theirs; what only the room terminal/ can
decide (4, 5, 7 to 9, 11 to 18, 21, 38) is shown in tests/terminal on the real front with a scripted model."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.chatting import DEAF, assert_as_before, at_prompt, at_question, leave, prompts, send
from tests.e2e.program import KEY, Place, call, calls, says
from tests.e2e.test_network import FOREVER, MINUTE, broken, named, quota, refused
from tests.terminal.pty_screen import CTRL_C, CTRL_D, ENTER, PtyScreen

READ = calls(call("read_file", path="cart.py"))
EDIT = calls(call("edit_file", path="cart.py", edits=[{"old": "b\n", "new": "B\n"}]))
CHANGE = [READ, EDIT, says("Done with it.")]
HOSTILE = "a\x1b]52;c;aGk=\x07b\x1b[2Jc\x9b31md\u202ee\x1b]8;;http://x\x1b\\f"


@pytest.fixture
def place(place: Place) -> Place:
    place.write("cart.py", "a\nb\nc\n")
    return place


def waiting_for(request: int, simulator: Any, screen: PtyScreen) -> None:
    screen.wait_until(lambda: len(simulator.requests) >= request, what=f"request {request}")


def test_01_the_prompt_comes_after_few_lines_and_without_a_request(place: Place) -> None:
    with place.terminal("chat", size=(80, 24)) as (screen, simulator):
        at_prompt(screen)
        assert len(screen.all()) <= 5
        time.sleep(1.0)  # what is loaded behind the prompt is loaded by now
        assert simulator.requests == []
        leave(screen)


@pytest.mark.parametrize("arguments", [("chat",), (), ("ask", "hi")])
def test_03_without_a_key_one_line_names_the_variable(place: Place, arguments: tuple[str, ...]) -> None:
    result = place.run(*arguments, env={"GEMINI_API_KEY": None})
    assert (result.code, result.stdout, result.requests) == (2, "", ())
    (line,) = [line for line in result.stderr.splitlines() if "GEMINI_API_KEY" in line]
    assert "gemcode demo" in line and len(line) <= 100


def test_06_completion_offers_project_files_only_and_a_missing_one_sends_nothing(place: Place) -> None:
    place.write("src/app.py", "x\n")
    place.write("src/built.o", "x\n")
    place.write(".git/srcs", "x\n")
    place.write(".gitignore", "*.o\n")
    with place.terminal("chat", replies=[says("Seen.")]) as (screen, simulator):
        at_prompt(screen)
        screen.type("look at @sr")
        text = screen.wait_for("^ +src/app.py")
        assert "built.o" not in text and ".git/srcs" not in text
        screen.type("c/ap")
        screen.wait_for("^> look at @src/ap$")
        time.sleep(0.3)  # the menu follows what is typed
        screen.type("\t")
        screen.wait_for("^> look at @src/app.py$")
        screen.type(ENTER)
        screen.wait_for("· @src/app.py: lines 1-1 of 1, 2 bytes")
        screen.wait_for("Seen.")
        send(screen, "and @src/apq.py")
        screen.wait_for("@src/apq.py does not exist")
        screen.wait_for(r"Did you mean @src/app.py\?")
        assert len(simulator.requests) == 1
        leave(screen)


def test_10_the_last_prompt_comes_back_in_the_same_project_only(place: Place, tmp_path: Path) -> None:
    with place.terminal("chat", replies=[says("Answered.")]) as (screen, _):
        send(screen, "a prompt to remember")
        screen.wait_for("Answered.")
        leave(screen)
    with place.terminal("chat") as (screen, _):
        at_prompt(screen)
        screen.type("\x1b[A")
        screen.wait_for("^> a prompt to remember")
        screen.type(CTRL_C)
        at_prompt(screen)
        screen.type("\x12remem")
        screen.wait_for("a prompt to remember")
        screen.type("\x07")
        at_prompt(screen)
        leave(screen)
    other = Place(tmp_path / "other")
    other.project.mkdir(parents=True)
    with other.terminal("chat", env={"GEMCODE_HOME": str(place.home)}) as (screen, _):
        at_prompt(screen)
        screen.type("\x1b[A")
        time.sleep(0.3)
        assert "remember" not in screen.text()
        leave(screen)


def test_18_and_19_ctrl_c_in_mid_stream_leaves_a_usable_prompt_and_a_valid_conversation(place: Place) -> None:
    half = says("Start of it.\n\nSecond par", "agraph.", fault={"kind": "silence", "after": 1})
    with place.terminal("chat", replies=[half, says("After cancel.")]) as (screen, simulator):
        send(screen, "go")
        screen.wait_for("Second par")
        screen.type("xyzzy")
        time.sleep(0.3)
        screen.type(CTRL_C)
        text = screen.wait_for("cancelled after .*Nothing was written", seconds=5)
        at_prompt(screen, 2)
        assert (text.count("Start of it."), text.count("Second par"), text.count("xyzzy")) == (1, 1, 0)
        send(screen, "again")
        screen.wait_for("After cancel.")
        assert [part["text"] for part in simulator.requests[1].last_parts] == ["again"]
        leave(screen)


def test_20_sequences_in_text_names_diffs_and_errors_are_shown_not_obeyed(place: Place) -> None:
    place.write("b\x1b[2J.txt", "x\n")
    replies = [
        says(f"{HOSTILE}\n"),
        calls(call("list_files"), call("read_file", path="n\x1b[2J\u202e.txt")),
        calls(call("write_file", path="new.txt", content=f"{HOSTILE}\n")),
        says("Written."),
        refused(400, "INVALID_ARGUMENT", f"Bad {HOSTILE}", None),
    ]
    with place.terminal("chat", replies=replies) as (screen, _):
        send(screen, "go")
        text = screen.wait_for(r"a\\x1b\]52;c;aGk=\\x07b\\x1b\[2Jc\\x9b31md\\u\{202e\}e\\x1b\]8;;http://x")
        send(screen, "go")
        at_question(screen)
        text = screen.text()
        assert "n\\x1b[2J\\u{202e}.txt" in text and r"+ a\x1b]52;c;aGk=\x07b" in text
        screen.type("y")
        screen.wait_for("Written.")
        send(screen, "go")
        screen.wait_for("^✗ ")
        at_prompt(screen, 4)
        for sequence in (b"\x1b]", b"\x1b[2J", "\x9b".encode(), "\u202e".encode()):
            assert sequence not in screen.raw
        leave(screen)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (40, 15)])
def test_22_and_27_and_36_the_question_is_last_both_lines_are_visible_and_the_status_fits(
    place: Place, size: tuple[int, int]
) -> None:
    with place.terminal("chat", replies=CHANGE, size=size) as (screen, _):
        send(screen, "go")
        question = at_question(screen)
        visible = "\n".join(screen.visible())
        assert re.search(r"2 - b$", visible, re.MULTILINE) and re.search(r"2 \+ B$", visible, re.MULTILINE)
        assert all(re.search(rf"\b{letter}\b", question) for letter in "yneadq")
        screen.type("y")
        screen.wait_for("Done with it.")
        at_prompt(screen, 2)
        status = next(row for row in screen.all() if row.startswith("gemini-3.8-flash  in "))
        assert len(status) <= size[0]
        if size[0] >= 80:
            assert re.fullmatch(
                r"\S+  in [\d.]+k?( \(\d+% cached\))?  out \d+  \$\S+  session \$\S+  1 file  \d+s", status
            )
        leave(screen)


def test_23_what_is_typed_or_pasted_before_or_with_the_question_writes_nothing(place: Place) -> None:
    with place.terminal("chat", replies=CHANGE) as (screen, _):
        at_prompt(screen)
        screen.type("go" + ENTER + "yyy")
        screen.wait_until(lambda: screen.visible()[-1].startswith("Write"), what="question")
        screen.type("y")
        time.sleep(DEAF)
        screen.type(ENTER)
        screen.type(" ")
        screen.paste("y\ny\n")
        screen.paste("y")
        screen.type("yy")
        time.sleep(0.4)
        assert place.files()["cart.py"] == b"a\nb\nc\n"
        assert at_question(screen).startswith("Write cart.py?")
        screen.type("y")
        screen.wait_for("Done with it.")
        assert place.files()["cart.py"] == b"a\nB\nc\n"
        leave(screen)


def test_24_and_32_no_takes_a_reason_to_the_model_and_nothing_is_claimed_before_it_is_done(place: Place) -> None:
    with place.terminal("chat", replies=[READ, EDIT, EDIT, says("Understood.")]) as (screen, simulator):
        send(screen, "go")
        at_question(screen)
        assert not re.search("written|edited|modified", screen.text(), re.IGNORECASE)
        screen.type("n")
        screen.wait_for("Reason for the model")
        screen.type("keep the public name" + ENTER)
        screen.wait_for("✗ edit_file +cart.py +declined: keep the public name")
        waiting_for(3, simulator, screen)
        assert "keep the public name" in str(simulator.requests[2].results)
        at_question(screen)
        assert not re.search("written|edited|modified", screen.text(), re.IGNORECASE)
        screen.type("y")
        screen.wait_for(r"✓ edit_file +cart.py +modified \(\+1 -1\)")
        screen.wait_for(r"· cart.py written \(\+1 -1\)  Undo: /undo")
        assert place.files()["cart.py"] == b"a\nB\nc\n"
        leave(screen)


@pytest.mark.parametrize("how", [CTRL_C, CTRL_D, signal.SIGTERM, signal.SIGHUP])
def test_25_stopping_a_question_leaves_the_very_file(place: Place, how: str | signal.Signals) -> None:
    before = (place.project / "cart.py").stat()
    with place.terminal("chat", replies=CHANGE) as (screen, simulator):
        send(screen, "go")
        at_question(screen)
        if isinstance(how, signal.Signals):
            screen.signal(how)
            assert screen.wait_for_end() == 128 + how
            assert_as_before(screen)
        else:
            screen.type(how)
            at_prompt(screen, 2)
            leave(screen)
        assert len(simulator.requests) == 2
    after = (place.project / "cart.py").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert list(place.files()) == ["cart.py"]


def test_26_a_large_change_says_what_is_not_shown_and_one_yes_does_not_write_it(place: Place) -> None:
    old = "".join(f"line {n}\n" for n in range(1000))
    place.write("large.txt", old)
    edits = [{"old": f"line {n}\n", "new": f"changed {n}\n"} for n in range(0, 1000, 10)]
    replies = [
        calls(call("read_file", path="large.txt")),
        calls(call("edit_file", path="large.txt", edits=edits)),
        says("Done."),
    ]
    with place.terminal("chat", replies=replies, size=(80, 24)) as (screen, _):
        send(screen, "go")
        assert at_question(screen).startswith("Write large.txt (+100 -100)?")
        assert re.search(r"… \d+ more hunks, \d+ lines not shown", screen.text())
        screen.type("y")
        screen.wait_for(r"You have seen \d of 100 hunks. Press y again to write all, d to see them.")
        time.sleep(0.2)
        assert place.files()["large.txt"].decode() == old
        at_question(screen)
        screen.type("d")
        screen.wait_for("changed 990")
        assert all(f"+ changed {n}" in screen.text() for n in range(0, 1000, 10))
        at_question(screen)
        screen.type("y")
        screen.wait_for("Done.")
        assert place.files()["large.txt"].count(b"changed") == 100
        leave(screen)


def test_28_a_new_file_names_its_directories_and_declining_leaves_none(place: Place) -> None:
    replies = [calls(call("write_file", path="docs/new/api.md", content="text\n" * 42)), says("Fine.")]
    with place.terminal("chat", replies=replies) as (screen, _):
        send(screen, "go")
        at_question(screen)
        assert "new file, 42 lines, creates docs/, docs/new/" in screen.text()
        screen.type("\x1b")
        screen.wait_for("declined")
        screen.wait_for("Fine.")
        assert not (place.project / "docs").exists()
        leave(screen)


SAVED = b"a\nb\nc\na colleague's line\n"
WHAT_NOW = "  m show both   r let the model read it again   n drop the proposal   q stop"


def overtake(place: Place, screen: PtyScreen) -> str:
    """Save the file while the write is asked about, say yes, and wait for the next question; the kept id."""
    send(screen, "go")
    at_question(screen)
    place.write("cart.py", SAVED)
    screen.type("y")
    assert at_question(screen, "  m show both") == WHAT_NOW
    text = screen.text()
    assert re.search(r"! cart.py changed on disk while you were reading \([\d:]+, \+1 line\)\.", text)
    found = re.search(r"  Not written. Yours is untouched. The proposal is kept as ([0-9a-z]{4})\.", text)
    assert found is not None and place.files()["cart.py"] == SAVED
    return found[1]


def test_29_a_save_while_the_question_is_open_wins_and_the_model_may_read_it_again(place: Place) -> None:
    again = calls(call("edit_file", path="cart.py", edits=[{"old": "b\n", "new": "BB\n"}]))
    with place.terminal("chat", replies=[READ, EDIT, READ, again, says("Done with both.")]) as (screen, simulator):
        overtake(place, screen)
        for key in (ENTER, " ", "y", "\x1b[200~r\x1b[201~", "rr"):
            screen.type(key)
            time.sleep(0.2)
            assert screen.visible()[-1] == WHAT_NOW, "only a key that is pressed alone answers"
        screen.type("m")
        text = screen.wait_for("the proposal, against the file now")
        assert "  4 + a colleague's line" in text and "  4 - a colleague's line" in text
        at_question(screen, "  m show both")
        assert len(simulator.requests) == 2
        screen.type("r")
        at_question(screen)
        assert "✗ edit_file     cart.py               changed on disk, to be read again" in screen.text()
        assert "changed on disk since it was shown" in str(simulator.requests[2].results)
        screen.type("y")
        screen.wait_for("Done with both.")
        assert place.files()["cart.py"] == SAVED.replace(b"b\n", b"BB\n", 1)
        leave(screen)


@pytest.mark.parametrize("key", ["n", "\x1b"], ids=["n", "Esc"])
def test_29_a_dropped_proposal_is_told_and_can_still_be_brought_back(place: Place, key: str) -> None:
    with place.terminal("chat", replies=[READ, EDIT, says("As you like.")]) as (screen, simulator):
        kept = overtake(place, screen)
        screen.type(key)
        screen.wait_for("✗ edit_file +cart.py +proposal dropped")
        screen.wait_for("As you like.")
        assert "The user dropped your proposal" in str(simulator.requests[2].results)
        send(screen, f"/restore {kept}")
        at_question(screen)
        assert "- a colleague's line" in screen.text()
        screen.type("n")
        screen.wait_for("Nothing was written.")
        assert place.files()["cart.py"] == SAVED
        leave(screen)
    result = place.run("restore", kept, "--yes")
    assert result.code == 0, result.stderr
    assert place.files()["cart.py"] == b"a\nB\nc\n"


@pytest.mark.parametrize("key", ["q", CTRL_C, CTRL_D], ids=["q", "Ctrl-C", "Ctrl-D"])
def test_29_stopping_at_a_conflict_leaves_both_versions_and_a_valid_conversation(place: Place, key: str) -> None:
    with place.terminal("chat", replies=[READ, EDIT, says("After it.")]) as (screen, simulator):
        kept = overtake(place, screen)
        screen.type(key)
        screen.wait_for("cancelled after .*Nothing was written")
        send(screen, "again")
        screen.wait_for("After it.")
        assert "changed on disk since it was shown" in str(simulator.requests[2].contents)
        leave(screen)
    assert place.files()["cart.py"] == SAVED
    assert place.run("restore", kept, "--yes").code == 0
    assert place.files()["cart.py"] == b"a\nB\nc\n"


def test_29_ask_on_a_terminal_asks_the_same_and_says_in_the_end_what_was_not_written(place: Place) -> None:
    with place.terminal("ask", "go", replies=[READ, EDIT, says("As you like.")]) as (screen, _):
        at_question(screen)
        place.write("cart.py", SAVED)
        screen.type("y")
        at_question(screen, "  m show both")
        screen.type("n")
        assert screen.wait_for_end() == 5
        assert "✗ Not written: cart.py. Proposal dropped." in screen.text()
        assert_as_before(screen)
    assert place.files()["cart.py"] == SAVED


def test_29_in_linear_mode_a_letter_and_enter_answer(place: Place) -> None:
    with place.terminal("chat", replies=[READ, EDIT, says("As you like.")], env={"TERM": "dumb"}) as (screen, _):
        screen.wait_for("^> ?$")
        screen.type("go\n")
        screen.wait_for(r"^Write cart\.py\?")
        time.sleep(DEAF)
        place.write("cart.py", SAVED)
        screen.type("y\n")
        screen.wait_for("m show both")
        time.sleep(DEAF)
        screen.type("\n")
        screen.wait_until(lambda: screen.text().count("m show both") == 2, what="the question again")
        time.sleep(DEAF)
        screen.type("n\n")
        screen.wait_for("proposal dropped")
        screen.wait_for("As you like.")
        assert place.files()["cart.py"] == SAVED


def test_30_taking_two_of_five_hunks_changes_exactly_these_bytes(place: Place) -> None:
    lines = [f"line {n}\r\n" if n % 2 else f"line {n}\n" for n in range(60)]  # mixed line ends stay as they are
    place.write("five.txt", "".join(lines))
    edits = [{"old": f"line {n}\n", "new": f"new {n}\n"} for n in (2, 14, 26, 38, 50)]
    edit = calls(call("edit_file", path="five.txt", edits=edits))
    read = calls(call("read_file", path="five.txt"))
    with place.terminal("chat", replies=[read, edit, says("Two."), edit, says("None.")]) as (screen, _):
        send(screen, "go")
        at_question(screen)
        screen.type("h")
        for number, key in enumerate("ynnyn", 1):
            at_question(screen, f"Hunk {number} of 5")
            screen.type(key)
        at_question(screen)
        assert "Taken: 2 of 5 hunks (+2 -2)." in screen.text()
        screen.type("y")
        screen.wait_for("Two.")
        expected = [line.replace("line", "new") if n in (2, 38) else line for n, line in enumerate(lines)]
        assert place.files()["five.txt"] == "".join(expected).encode()
        leave(screen)


def test_30_cancelling_the_choice_writes_nothing(place: Place) -> None:
    place.write("five.txt", "".join(f"line {n}\n" for n in range(60)))
    before = place.files()
    edits = [{"old": f"line {n}\n", "new": f"new {n}\n"} for n in (2, 50)]
    replies = [calls(call("read_file", path="five.txt")), calls(call("edit_file", path="five.txt", edits=edits))]
    with place.terminal("chat", replies=replies) as (screen, _):
        send(screen, "go")
        at_question(screen)
        screen.type("h")
        at_question(screen, "Hunk 1 of 2")
        screen.type("y")
        at_question(screen, "Hunk 2 of 2")
        screen.type("q")
        at_question(screen)
        assert "No choice made." in screen.text()
        screen.type("q")
        at_prompt(screen, 2)
        assert place.files() == before
        leave(screen)


def test_31_all_lasts_one_turn_and_does_not_cover_a_makefile(place: Place) -> None:
    def write(name: str) -> dict[str, Any]:
        return call("write_file", path=name, content="all:\n\ttrue\n")

    replies = [calls(write("one.py")), calls(write("two.py"), write("Makefile")), says("Done."), calls(write("six.py"))]
    with place.terminal("chat", replies=replies) as (screen, _):
        send(screen, "go")
        assert at_question(screen).startswith("Write one.py?")
        screen.type("a")
        assert at_question(screen).startswith("Write Makefile?")
        assert sorted(place.files()) == ["cart.py", "one.py", "two.py"]
        screen.type("y")
        screen.wait_for("Makefile .*Type Makefile to write it:")
        screen.type("no" + ENTER)
        screen.wait_for("That is not its name. Nothing was written.")
        at_question(screen)
        screen.type("\x1b")
        screen.wait_for("Done.")
        send(screen, "more")
        assert at_question(screen).startswith("Write six.py?")
        screen.type("q")
        at_prompt(screen, 3)
        assert sorted(place.files()) == ["cart.py", "one.py", "two.py"]
        leave(screen)


def test_33_a_wait_counts_down_is_kept_and_can_be_ended(place: Place) -> None:
    replies = [quota(MINUTE, "3s"), says("After the wait."), quota(MINUTE, "60s")]
    with place.terminal("chat", replies=replies, size=(80, 24)) as (screen, simulator):
        send(screen, "go")
        for number in (3, 2, 1):
            screen.wait_for(rf"^! The limit per minute.* {number} s")
        screen.wait_for("After the wait.")
        screen.wait_for("· waited 3 s: The limit per minute")
        first, second = (request.time for request in simulator.requests)
        assert second - first >= 3.0
        send(screen, "go")
        screen.wait_for(r"^! The limit per minute.* (60|59) s")
        screen.type(CTRL_C)
        screen.wait_for("cancelled after", seconds=5)
        at_prompt(screen, 3)
        assert len(simulator.requests) == 3
        leave(screen)


FAILURES: dict[str, tuple[list[dict[str, Any]], dict[str, str | None], str]] = {
    "503": ([refused(503, **FOREVER)], {}, "overloaded"),
    "bad key": ([named("key_invalid")], {}, "key"),
    "bad JSON": ([{**broken("garbage"), **FOREVER}], {}, "answer"),
    "offline": ([], {"GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:9"}, "reach"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_34_a_failure_is_a_sentence_and_a_hint_and_the_prompt_comes_back(place: Place, name: str) -> None:
    replies, env, word = FAILURES[name]
    with place.terminal("chat", replies=replies, env=env) as (screen, _):
        send(screen, "my prompt")
        screen.wait_for("^✗ ", seconds=60)
        at_prompt(screen, 2)
        rows = screen.all()
        told = next(number for number, row in enumerate(rows) if row.startswith("✗ "))
        assert word in rows[told] and rows[told + 1].startswith("  ") and rows[told + 2] == ">"
        assert "{" not in screen.text() and "Traceback" not in screen.text()
        screen.type("\x1b[A")
        screen.wait_until(lambda: screen.visible()[-1] == "> my prompt", what="the prompt")
        screen.type(CTRL_C)
        leave(screen)


def test_35_a_daily_limit_ends_ask_with_6_at_once(place: Place) -> None:
    result = place.ask("go", replies=[quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "20s")])
    assert (result.code, result.stdout, len(result.requests)) == (6, "", 1)
    assert "per day" in result.stderr


@pytest.mark.parametrize("size", [(80, 24), (40, 15)])
def test_37_the_resume_command_works_when_pasted(place: Place, size: tuple[int, int]) -> None:
    with place.terminal("chat", replies=[says("The first answer.")], size=size) as (screen, _):
        send(screen, "the first prompt")
        screen.wait_for("The first answer.")
        leave(screen)
        (row,) = [row for row in screen.all() if "Continue: gemcode " in row]
        assert len(row) < 80 and re.search(r" --resume \w{6}$", row)
    command = shlex.split(row.partition("Continue: gemcode ")[2])
    with place.terminal(*command, replies=[says("The second answer.")]) as (screen, simulator):
        at_prompt(screen)
        assert "> the first prompt" in screen.text() and "The first answer." in screen.text()
        screen.type("go on" + ENTER)
        screen.wait_for("The second answer.")
        assert "The first answer." in str(simulator.requests[0].contents)
        leave(screen)


def test_37_after_a_kill_continue_restores_the_turns(place: Place) -> None:
    late = says("Half", "way", fault={"kind": "silence", "after": 1})
    with place.terminal("chat", replies=[says("The first answer."), late]) as (screen, _):
        send(screen, "the first prompt")
        screen.wait_for("The first answer.")
        send(screen, "the second prompt")
        screen.wait_for("Half")
        screen.signal(signal.SIGKILL)
        screen.wait_for_end()
    with place.terminal("chat", "--continue", replies=[says("Restored.")]) as (screen, simulator):
        at_prompt(screen)
        assert "The first answer." in screen.text()
        screen.type("go on" + ENTER)
        screen.wait_for("Restored.")
        assert "The first answer." in str(simulator.requests[0].contents)
        leave(screen)


def test_39_in_pipes_there_is_the_answer_alone_and_a_closed_reader_is_no_error(place: Place) -> None:
    program = shlex.join([sys.executable, "-m", "gemcode", "ask"])
    with place.started("tools", replies=[says("one\n" * 20000), says("one\n" * 20000)]) as running:
        url = running.simulator.url
        for shell, output in (
            (f"{program} hi < /dev/null | tail -1; echo ${{PIPESTATUS[0]}}", "one\n0\n"),
            (f"{program} hi < /dev/null | head -1; echo ${{PIPESTATUS[0]}}", "one\n141\n"),
        ):
            done = subprocess.run(
                ["bash", "-c", shell],
                cwd=place.project,
                env={**place.environment(url), "PYTHONPATH": os.getcwd()},
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert done.stdout == output
            assert "Traceback" not in done.stderr and KEY not in done.stderr
            if output.endswith("141\n"):
                assert "Broken" not in done.stderr and "✗" not in done.stderr


def commands() -> list[str]:
    done = subprocess.run([sys.executable, "-m", "gemcode", "--help"], capture_output=True, text=True, check=True)
    return re.findall(r"^  ([a-z]+) {2,}\S", done.stdout.partition("Commands:")[2], re.MULTILINE)


def test_40_every_help_fits_has_an_example_and_exits_0() -> None:
    names = commands()
    assert {"chat", "ask", "demo", "undo", "restore", "doctor", "serve"} <= set(names)
    for arguments in ([], *([name] for name in names)):
        done = subprocess.run(
            [sys.executable, "-m", "gemcode", *arguments, "--help"], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert max(map(len, done.stdout.splitlines())) <= 80, arguments
        assert "Example: gemcode " in done.stdout or "| gemcode" in done.stdout or not arguments, arguments


def test_a_turn_that_meets_its_limit_asks_whether_to_go_on(place: Place) -> None:
    reads = [calls(call("list_files", path=".", pattern=f"*{n}")) for n in range(5)]
    with place.terminal("chat", "--max-steps", "2", replies=[*reads[:4], says("At last."), *reads]) as (
        screen,
        simulator,
    ):
        send(screen, "go")
        assert at_question(screen, "? Stopped after 2 steps").endswith("Continue?  y yes  n no")
        screen.type("y")
        at_question(screen, "? Stopped after 4 steps")
        screen.type("y")
        screen.wait_for("At last.")
        send(screen, "go")
        at_question(screen, "? Stopped after 2 steps")
        screen.type("n")
        screen.wait_for("✗ Stopped after 2 steps")
        at_prompt(screen, 3)
        assert (len(simulator.requests), prompts(screen)) == (7, 3)
        leave(screen)


def test_01_the_start_line_names_the_branch_without_running_git(place: Place) -> None:
    place.write(".git/HEAD", "ref: refs/heads/till\x1b[2J\n")
    ran = place.base / "ran"
    place.write(".git/config", f"[core]\n\tfsmonitor = touch {ran}\n")
    with place.terminal("chat") as (screen, _):
        at_prompt(screen)
        assert re.search(
            r"^gemcode \S+  gemini-3.8-flash  ~/project \(git: till\\x1b\[2J\)$", screen.text(), re.MULTILINE
        )
        leave(screen)
    assert not ran.exists()
