"""The whole program in tmux, with the simulator behind it: resizes, pastes, stops, a closed window."""

import re
import shlex
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gemcode.simulator.server import Simulator, running_simulator
from tests.e2e.chatting import DEAF
from tests.e2e.program import COMMAND, PATIENCE, STRICT, Place, Result, Source, call, calls, says, scenario
from tests.terminal.tmux import Tmux

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

CHANGE = [
    calls(call("read_file", path="cart.py")),
    calls(call("edit_file", path="cart.py", edits=[{"old": "b\n", "new": "B\n"}])),
    says("Done with it."),
]
BEFORE, AFTER = {"cart.py": b"a\nb\nc\n"}, {"cart.py": b"a\nB\nc\n"}
PARAGRAPHS = [f"Paragraph {index:02d} has some words that make it wrap at forty columns.\n\n" for index in range(60)]
STREAM = says(*(piece for text in PARAGRAPHS for piece in (text[:9], text[9:30], text[30:])), delay_between=0.02)


@pytest.fixture
def place(place: Place) -> Place:
    place.write("cart.py", BEFORE["cart.py"])
    return place


@contextmanager
def chat(place: Place, replies: Source) -> Iterator[tuple[Tmux, Simulator]]:
    """`gemcode chat`, started from a shell with job control in a window of 80 columns and 24 rows."""
    with running_simulator(scenario(replies), STRICT) as simulator:
        environment = place.environment(simulator.url, {"TERM": "tmux-256color"})
        start = place.base / "start"  # in a file, so that the key is never on the screen
        words = ["env", "-i", *(f"{name}={value}" for name, value in environment.items()), *COMMAND, "chat"]
        start.write_text(f"exec {shlex.join([*words, '-C', str(place.project)])}\n")
        tmux = Tmux("env PS1='$ ' bash --norc --noprofile -i")
        try:
            tmux.wait_for(r"^\$")
            tmux.type(f"sh {start}", "Enter")
            at_prompt(tmux)
            yield tmux, simulator
            shown = tmux.text() if tmux.lives() else ""
        finally:
            tmux.close()
        place.check(Result(0, "", shown, (), tuple(simulator.violations)), may_violate=False)


def at_prompt(tmux: Tmux) -> None:
    tmux.wait_until(lambda text: text.rstrip().splitlines()[-1:] == [">"])


def at_question(tmux: Tmux) -> None:
    """The question is the last thing on the screen, and hears."""
    tmux.wait_until(lambda text: text.rstrip().splitlines()[-1].startswith("Write"))
    time.sleep(DEAF)


def leave(tmux: Tmux) -> None:
    at_prompt(tmux)
    tmux.type("C-d")
    tmux.wait_until(lambda text: text.rstrip().endswith("$"))
    tmux.type("stty -a | grep -o -w -e '-\\?echo' -e '-\\?icanon' -e '-\\?icrnl'", "Enter")
    tmux.wait_until(lambda text: sorted(text.split()[-4:]) == ["$", "echo", "icanon", "icrnl"])


def test_13_every_paragraph_is_there_once_after_resizes_in_mid_stream(place: Place) -> None:
    with chat(place, [STREAM]) as (tmux, _):
        tmux.type("go", "Enter")
        tmux.wait_for("Paragraph 10")
        tmux.resize(50, 20)
        tmux.wait_for("Paragraph 25")
        tmux.resize(30, 12)
        tmux.wait_for("Paragraph 40")
        tmux.resize(110, 30)
        tmux.wait_for(r"session \$")
        at_prompt(tmux)
        assert re.findall(r"Paragraph (\d\d)", tmux.text()) == [f"{number:02d}" for number in range(60)]
        leave(tmux)


def test_22_a_resized_question_is_last_unanswered_and_writes_exactly_what_it_showed(place: Place) -> None:
    with chat(place, CHANGE) as (tmux, simulator):
        tmux.type("go", "Enter")
        at_question(tmux)
        question = tmux.last().replace(" ", "")
        for columns, rows in ((40, 12), (120, 40), (25, 8), (80, 24)):
            tmux.resize(columns, rows)
            time.sleep(0.4)  # the program hears of it, and draws
            rows = tmux.run("capture-pane", "-p", "-S", "-", "-t", ":0").replace("\n", "").replace(" ", "")
            assert rows.endswith(question) and rows.count("Write") == 1
        assert (place.files(), len(simulator.requests)) == (BEFORE, 2)
        tmux.type("y")
        tmux.wait_for("Done with it.")
        assert place.files() == AFTER
        leave(tmux)


def test_09_a_paste_of_200_lines_is_one_prompt_and_its_slash_quit_does_not_run(place: Place) -> None:
    lines = [f"line {number}" for number in range(200)]
    lines[100] = "/quit"
    with chat(place, [says("Read it all.")]) as (tmux, simulator):
        tmux.run("load-buffer", "-", input="\n".join(lines))
        tmux.run("paste-buffer", "-p", "-t", ":0")
        tmux.wait_for(r"^> \[Pasted text #1, 200 lines\]$")
        assert simulator.requests == []
        tmux.type(" and this", "Enter")
        tmux.wait_for("Read it all.")
        assert simulator.requests[0].last_text == "\n".join(lines) + " and this"
        leave(tmux)


def test_stopped_while_streaming_it_goes_on_where_it_was(place: Place) -> None:
    with chat(place, [STREAM]) as (tmux, _):
        tmux.type("go", "Enter")
        tmux.wait_for("Paragraph 05")
        tmux.type("C-z")
        tmux.wait_for("Stopped")
        tmux.type("stty -a | grep -o -w -e '-\\?echo'", "Enter")
        tmux.wait_for("^echo$")
        tmux.type("fg", "Enter")
        tmux.wait_for(r"session \$")
        at_prompt(tmux)
        assert re.findall(r"Paragraph (\d\d)", tmux.text()) == [f"{number:02d}" for number in range(60)]
        leave(tmux)


def test_stopped_in_a_question_nothing_is_answered_and_it_is_asked_again(place: Place) -> None:
    with chat(place, CHANGE) as (tmux, simulator):
        tmux.type("go", "Enter")
        at_question(tmux)
        tmux.type("C-z")
        tmux.wait_for("Stopped")
        assert (place.files(), len(simulator.requests)) == (BEFORE, 2)
        tmux.type("fg", "Enter")
        tmux.wait_until(lambda text: "Write cart.py?" in text.rpartition("Stopped")[2])
        time.sleep(DEAF)
        assert place.files() == BEFORE
        tmux.type("y")
        tmux.wait_for("Done with it.")
        assert place.files() == AFTER
        leave(tmux)


def test_25_a_window_closed_in_a_question_writes_nothing_and_the_session_goes_on(place: Place) -> None:
    with chat(place, CHANGE) as (tmux, simulator):
        tmux.type("go", "Enter")
        at_question(tmux)
        program = Path(f"/proc/{tmux.program()}")
        tmux.run("kill-pane", "-t", ":0")
        end = time.monotonic() + PATIENCE
        while program.exists():
            assert time.monotonic() < end, "it did not end"
            time.sleep(0.02)
        assert (place.files(), len(simulator.requests)) == (BEFORE, 2)
    result = place.ask("Go on.", "-c", replies=[says("I go on.")])
    assert (result.code, result.stdout, place.files()) == (0, "I go on.\n", BEFORE)
    told = str(result.requests[0].contents)
    assert "edit_file" in told and "Go on." in told
