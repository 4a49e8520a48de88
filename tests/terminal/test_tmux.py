"""What only a real terminal program can show: resizes, its own paste, its flags. Needs tmux."""

import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.terminal.test_repl_screen import requests
from tests.terminal.tmux import Tmux

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "cart.py").write_text("a\nb\nc\n")
    return root


@pytest.fixture
def open_tmux(project: Path) -> Iterator[Callable[[str], Tmux]]:
    opened: list[Tmux] = []

    def start(scenario: str) -> Tmux:
        command = f"{sys.executable} -m tests.terminal.program {scenario} {project}"
        opened.append(Tmux("env PS1='$ ' bash --norc --noprofile -i"))
        opened[-1].wait_for(r"^\$")
        opened[-1].type(command, "Enter")
        opened[-1].wait_for("^>")
        return opened[-1]

    yield start
    for one in opened:
        one.close()


Open = Callable[[str], Tmux]


def test_13_every_paragraph_is_there_once_after_two_resizes(open_tmux: Open) -> None:
    tmux = open_tmux("paragraphs")
    tmux.type("go", "Enter")
    tmux.wait_for("Paragraph 15")
    tmux.resize(50, 20)
    tmux.wait_for("Paragraph 35")
    tmux.resize(100, 30)
    text = tmux.wait_for("^scripted  in 10")
    found = re.findall(r"Paragraph (\d\d)", text)
    assert found == [f"{number:02d}" for number in range(60)]


def test_02_neither_alternate_screen_nor_mouse(open_tmux: Open) -> None:
    tmux = open_tmux("write")
    assert tmux.flags() == "0 0"
    tmux.type("go", "Enter")
    tmux.wait_for(r"^Write cart\.py\?")
    assert tmux.flags() == "0 0"


def test_08_and_09_tmux_pastes_two_hundred_lines(open_tmux: Open, project: Path) -> None:
    tmux = open_tmux("hello")
    text = "\n".join(f"line {n}" for n in range(200))
    tmux.run("load-buffer", "-", input=text)
    tmux.run("paste-buffer", "-p", "-t", ":0")
    tmux.wait_for(r"^> \[Pasted text #1, 200 lines\]")
    assert requests(project) == []
    tmux.type("Enter")
    tmux.wait_for("Hello there.")
    assert requests(project) == [f"1 {text!r}"]


def test_22_a_resize_keeps_the_question_last_and_unanswered(open_tmux: Open, project: Path) -> None:
    tmux = open_tmux("write")
    tmux.type("go", "Enter")
    tmux.wait_for(r"^Write cart\.py\?")
    tmux.resize(50, 15)
    time.sleep(0.5)
    tmux.resize(100, 30)
    time.sleep(0.5)
    assert tmux.text().rstrip().splitlines()[-1].startswith("Write cart.py?")
    tmux.type("y")
    tmux.wait_for("Done with it.")
    assert (project / "cart.py").read_text() == "a\nB\nc\n"


def test_04_a_closed_menu_leaves_nothing_behind(open_tmux: Open) -> None:
    tmux = open_tmux("hello")
    tmux.type("/")
    tmux.wait_for("/help +this list")
    tmux.type("Escape")
    tmux.wait_until(lambda text: "this list" not in text)
    assert tmux.text().count("gemcode 1.0") == 1


@pytest.mark.parametrize("place", ["prompt", "turn", "question"])
def test_ctrl_z_suspends_everywhere_and_fg_goes_on(open_tmux: Open, project: Path, place: str) -> None:
    tmux = open_tmux({"prompt": "hello", "turn": "slow", "question": "write"}[place])
    if place == "prompt":
        tmux.type("half a prompt")
    else:
        tmux.type("go", "Enter")
    tmux.wait_for({"prompt": "half a prompt", "turn": "Second par", "question": r"^Write cart\.py\?"}[place])
    tmux.type("C-z")
    tmux.wait_for("Stopped")
    tmux.type("stty -a | grep -o -w -e '-\\?echo' -e '-\\?icanon'", "Enter")
    tmux.wait_for(r"^icanon\necho\n|^echo\nicanon\n")
    tmux.type("fg", "Enter")
    time.sleep(1)
    if place == "prompt":
        tmux.type("Enter")
        tmux.wait_for("Hello there.")
        assert requests(project) == ["1 'half a prompt'"]
    elif place == "turn":
        tmux.type("C-c")
        tmux.wait_for("cancelled after")
    else:
        tmux.type("y")
        tmux.wait_for("Done with it.")
    tmux.wait_until(lambda text: text.rstrip().endswith(">"))
    tmux.type("C-d")
    tmux.wait_until(lambda text: text.rstrip().endswith("$"))


def test_40_the_terminal_is_as_before_after_leaving(open_tmux: Open) -> None:
    tmux = open_tmux("markdown")
    tmux.type("go", "Enter")
    tmux.wait_for("End of it.")
    tmux.wait_until(lambda text: text.rstrip().endswith(">"))
    tmux.type("C-d")
    tmux.wait_until(lambda text: text.rstrip().endswith("$"))
    flags = tmux.run("display-message", "-p", "-t", ":0", "#{cursor_flag} #{alternate_on} #{keypad_cursor_flag}")
    assert flags.split() == ["1", "0", "0"]
    tmux.type("stty -a | grep -o -w -e '-\\?echo' -e '-\\?icanon'", "Enter")
    tmux.wait_for(r"^icanon\necho\n|^echo\nicanon\n")
