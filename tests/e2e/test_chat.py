"""`gemcode chat` on a terminal, against the service: turns, confirms, cancels, and a conversation that stays valid."""

import signal
import subprocess

import pytest

from tests.e2e.program import Place, call, calls, press, says
from tests.terminal.pty_screen import CTRL_C, CTRL_D, ENTER, PtyScreen

FOREVER = 3000.0


@pytest.fixture(autouse=True)
def project(place: Place) -> Place:
    place.write("a.txt", "one\n")
    return place


def prompt(screen: PtyScreen, text: str) -> None:
    """Type a line as soon as it can be typed."""
    screen.wait_until(lambda: bool(screen.visible()) and screen.visible()[-1] == ">", what="an empty prompt")
    screen.type(text)


def test_two_turns_are_one_conversation(place: Place) -> None:
    with place.terminal("chat", replies=[says("Hello Ada."), says("Ada, as you said.")]) as (screen, simulator):
        prompt(screen, "I am Ada." + ENTER)
        screen.wait_for("Hello Ada.")
        prompt(screen, "Who am I?" + ENTER)
        screen.wait_for("as you said")
        prompt(screen, "/quit" + ENTER)
        assert screen.wait_for_end() == 0
        assert [content["role"] for content in simulator.requests[1].contents] == ["user", "model", "user"]


def test_the_first_prompt_may_come_from_the_command_line(place: Place) -> None:
    with place.terminal("chat", "Say hello.", replies=[says("Hello.")]) as (screen, simulator):
        screen.wait_for("Hello.$")
        prompt(screen, CTRL_D)
        assert screen.wait_for_end() == 0
        assert simulator.requests[0].last_text == "Say hello."


def test_a_cancelled_turn_leaves_a_conversation_that_goes_on(place: Place) -> None:
    replies = [
        says("Before."),
        calls(call("read_file", path="a.txt")),
        says("Half of it.\n\n", "Never.", fault={"kind": "silence", "after": 1}),
        says("After."),
    ]
    with place.terminal("chat", replies=replies) as (screen, simulator):
        prompt(screen, "one" + ENTER)
        screen.wait_for("Before.")
        prompt(screen, "two" + ENTER)
        screen.wait_for("Half of it.")
        screen.type(CTRL_C)
        screen.wait_for("cancelled")
        assert simulator.requests[2].disconnected.wait(30)
        prompt(screen, "three" + ENTER)
        screen.wait_for("After.")
        prompt(screen, CTRL_D)
        assert screen.wait_for_end() == 0
        assert simulator.requests[3].last_text.endswith("three")


def test_a_confirmed_write_is_undone_with_a_slash(place: Place) -> None:
    replies = [
        calls(call("read_file", path="a.txt")),
        calls(call("edit_file", path="a.txt", edits=[{"old": "one", "new": "two"}])),
        says("Changed."),
    ]
    with place.terminal("chat", replies=replies) as (screen, _):
        prompt(screen, "change it" + ENTER)
        press(screen, r"Write a\.txt\?", "y")
        screen.wait_for("Changed.")
        assert place.files() == {"a.txt": b"two\n"}
        prompt(screen, "/undo" + ENTER)
        screen.wait_until(lambda: place.files() == {"a.txt": b"one\n"}, what="the undo")
        prompt(screen, CTRL_D)
        assert screen.wait_for_end() == 0


def test_a_killed_chat_goes_on_where_it_was(place: Place) -> None:
    replies = [
        says("I know a number: 42."),
        calls(call("read_file", path="a.txt")),
        says("Never.", delay_first=FOREVER),
    ]
    with place.terminal("chat", replies=replies) as (screen, simulator):
        prompt(screen, "Tell me a number." + ENTER)
        screen.wait_for(r"42[\s\S]*session \$[\s\S]*\n>")  # what is typed before the turn has ended is thrown away
        prompt(screen, "Read the file." + ENTER)
        screen.wait_until(lambda: len(simulator.requests) == 3, what="the third request")
        screen.signal(signal.SIGKILL)
        screen.child.wait()
    result = place.ask("Go on.", "-c", replies=[says("Forty-two it was.")])
    assert (result.code, result.stdout) == (0, "Forty-two it was.\n")
    assert "42" in str(result.requests[0].contents)


def test_an_error_of_the_service_does_not_end_the_chat(place: Place) -> None:
    replies = [{"http_error": {"name": "quota_per_day"}}, says("Better now.")]
    with place.terminal("chat", replies=replies) as (screen, _):
        prompt(screen, "hi" + ENTER)
        screen.wait_for("per day")
        prompt(screen, "again" + ENTER)
        screen.wait_for("Better now.")
        prompt(screen, CTRL_D)
        assert screen.wait_for_end() == 0


def test_without_a_terminal_lines_are_prompts_and_nothing_is_asked(place: Place) -> None:
    replies = [calls(call("write_file", path="new.txt", content="x\n")), says("I may not write."), says("Bye.")]
    result = place.run("chat", replies=replies, stdin=b"write a file\nbye\n")
    assert "I may not write." in result.stdout
    assert "Bye." in result.stdout
    assert place.files() == {"a.txt": b"one\n"}
    assert len(result.requests) == 3


def test_the_demo_plays_without_a_key_and_without_a_terminal(place: Place) -> None:
    env = {"GEMINI_API_KEY": None, "GOOGLE_GEMINI_BASE_URL": None}
    result = place.run("demo", env=env, stdin=subprocess.DEVNULL)
    assert result.code == 0
    assert "No model is behind it" in result.stdout.replace("\n", " ")
    assert place.files() == {"a.txt": b"one\n"}
