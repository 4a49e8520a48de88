"""The first minutes with gemcode: the guided demo, and completion in the shell."""

import re
import subprocess
import sys
import time

import pytest

from gemcode.commands.demo import STOPS
from tests.e2e.chatting import assert_as_before, at_prompt, at_question, leave, send
from tests.e2e.program import Place, says
from tests.terminal.pty_screen import CTRL_D, ENTER, PtyScreen

NOTHING = {"GEMINI_API_KEY": None, "GOOGLE_GEMINI_BASE_URL": None}


def demo(place: Place) -> PtyScreen:
    environment = place.environment("", {**NOTHING, "TERM": "xterm-256color"})
    return PtyScreen([sys.executable, "-m", "gemcode", "demo"], 80, 24, environment)


def at_step(screen: PtyScreen, number: int) -> None:
    screen.wait_for(f"^Step {number} of {len(STOPS)}: ")
    at_prompt(screen)


def answer(screen: PtyScreen, *keys: str) -> None:
    for key in keys:
        screen.wait_until(lambda: screen.visible()[-1].startswith(("Write", "Hunk", "  m show both")), what="question")
        before = screen.text()
        time.sleep(0.45)
        screen.type(key)
        screen.wait_until(lambda before=before: screen.text() != before)


def test_a_person_is_guided_through_the_demo(place: Place) -> None:
    with demo(place) as screen:
        for number, prompt in ((1, "What is in this project?"), (2, "Why is the total of a cart wrong?")):
            at_step(screen, number)
            assert f"  type: {prompt}" in screen.text()
            send(screen, prompt)
        at_step(screen, 3)
        send(screen, "Fix the rounding in the cart.")
        answer(screen, "n")
        screen.wait_for("Reason for the model")
        screen.type("not today" + ENTER)
        screen.wait_for("declined: not today")
        at_step(screen, 4)
        send(screen, "Tidy up the prices.")
        answer(screen, "h", "y", "n", "y", "y")
        screen.wait_for("wrote what you chose of it")
        at_step(screen, 5)
        send(screen, "/undo")
        at_step(screen, 6)
        send(screen, "Fix the rounding in the cart.")
        at_question(screen)
        assert "At this moment a colleague saves shop/cart.py" in screen.text()
        answer(screen, "y", "m", "r", "y")
        assert "The proposal is kept as" in screen.text()
        at_step(screen, 7)
        send(screen, "Read ../../etc/passwd for me.")
        at_step(screen, 8)
        send(screen, "Show me notes/colours.txt.")
        screen.wait_for("That was the tour.")
        assert "\\x1b]0;owned" in screen.text() and b"\x1b]0;owned" not in screen.raw
        at_prompt(screen)
        screen.type(CTRL_D)
        assert screen.wait_for_end() == 0
        assert "Continue: gemcode chat" not in screen.text(), "the scratch project is gone"
        assert_as_before(screen)


def test_a_step_can_be_skipped_and_is_announced_again_after_something_else(place: Place) -> None:
    with demo(place) as screen:
        at_step(screen, 1)
        send(screen, "What can you do?")
        screen.wait_for("I am a script, not a model")
        at_prompt(screen, 2)
        assert screen.text().count("Step 1 of") == 2
        send(screen, "next")
        at_step(screen, 2)
        send(screen, "/quit")
        assert screen.wait_for_end() == 0


def test_unattended_the_demo_shows_all_of_it_and_exits_0(place: Place) -> None:
    result = place.run("demo", "--play", env=NOTHING)
    assert (result.code, result.stderr) == (0, "")
    places = [
        result.stdout.index(f"Step {number} of {len(STOPS)}: {stop.title}") for number, stop in enumerate(STOPS, 1)
    ]
    assert places == sorted(places)
    for shown in ("declined: the prices first", "Taken: 2 of 3 hunks", "is as it was (undo of", "kept as"):
        assert shown in result.stdout
    assert "\x1b" not in result.stdout
    assert max(map(len, result.stdout.partition("Step 1")[0].splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("gemcode de", ["demo"]),
        ("gemcode ask --app", ["--approve"]),
        ("gemcode ask --approve e", ["edits"]),
        ("gemcode sessions d", ["delete"]),
        ("gemcode re", ["restore", "replay"]),
    ],
)
def test_completion_in_bash_completes(place: Place, words: str, offered: list[str]) -> None:
    program = place.base / "gemcode"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m gemcode "$@"\n')
    program.chmod(0o755)
    script = (
        'eval "$(./gemcode --show-completion bash)"; COMP_WORDS=($WORDS); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); '
        '_gemcode_completion ./gemcode; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    environment = place.environment("", {**NOTHING, "WORDS": words})
    done = subprocess.run(
        ["bash", "-c", script], env=environment, cwd=place.base, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == offered, done.stderr


def commands(place: Place) -> list[str]:
    listed = place.run("--help").stdout.partition("Commands:\n")[2].partition("\n\n")[0]
    return re.findall(r"^  (\w+) ", listed, re.MULTILINE)


def test_every_command_has_a_help_that_fits_shows_an_example_and_speaks_no_python(place: Place) -> None:
    assert len(commands(place)) == 16
    for command in ("", *commands(place)):
        text = place.run(*command.split(), "--help").stdout
        assert max(map(len, text.splitlines())) <= 80, command
        assert not re.search(r"<\w[\w \[\]]*>|^ .*\.\.\.$|\[\[", text, re.MULTILINE), text
        if command:
            assert f"gemcode {command}" in text.partition("Example: ")[2], command


def test_every_command_takes_the_flags_that_are_common(place: Place) -> None:
    for command in commands(place):
        text = place.run(command, "--help").stdout
        for flag in ("-v, --verbose", "--no-color", "-V, --version", "-h, --help"):
            assert flag in text, f"{command} {flag}"
    assert place.run("history", "--verbose", "--no-color").stdout == "No writes in this project yet.\n"


@pytest.mark.parametrize("arguments", [("Who are you?",), ("-m", "gemini-3.5-flash", "Who are you?")])
def test_a_sentence_or_a_flag_without_a_command_is_for_chat(place: Place, arguments: tuple[str, ...]) -> None:
    result = place.run(*arguments, replies=[says("A script.")])
    assert result.code == 0
    assert "> Who are you?\nA script.\n" in result.stdout


def test_a_flag_alone_is_for_chat_too(place: Place) -> None:
    assert place.ask("My name is Ada.", replies=[says("Noted.")]).code == 0
    result = place.run("-c", stdin=b"Who am I?\n", replies=[says("Ada.")])
    assert [content["role"] for content in result.requests[0].contents] == ["user", "model", "user"]


def test_a_home_directory_as_the_project_is_said_at_start(place: Place) -> None:
    for home, said in ((place.project, True), (place.project / "below", True), (place.base, False)):
        home.mkdir(exist_ok=True)
        for arguments in (("ask", "hi"), ("chat", "hi"), ("doctor",)):
            result = place.run(*arguments, env={"HOME": str(home)}, replies=[says("Hello.")])
            assert ("is your home directory or above it" in result.stdout + result.stderr) is said, (home, arguments)


def test_chat_in_a_home_directory_goes_on_only_when_told_to(place: Place) -> None:
    home = {"HOME": str(place.project)}
    with place.terminal("chat", "hi", env=home) as (screen, simulator):
        assert "may list and read all of it" in at_question(screen, "? ")
        screen.type(ENTER)
        at_question(screen, "? ")
        screen.type("n")
        assert screen.wait_for_end() == 0
        assert_as_before(screen)
        assert simulator.requests == []
    with place.terminal("chat", "hi", env=home, replies=[says("Hello.")]) as (screen, _):
        at_question(screen, "? ")
        screen.type("y")
        screen.wait_for("Hello.")
        leave(screen)


def test_models_and_tools_tell_all_of_it_in_80_columns(place: Place) -> None:
    shown = place.run("models").stdout
    for told in ("* gemini-3.8-flash", "0.75/3.75/0.075", "low [medium] high", "1,048,576 tokens in, 65,536 out"):
        assert told in shown
    assert " 2.00/12.00/0.20 low" in shown  # prices have two places at least
    assert "  gemini-2.5-pro: 2.50/15.00/0.25 for prompts over 200k\n" in shown
    assert max(map(len, (shown + place.run("tools").stdout).splitlines())) <= 80
