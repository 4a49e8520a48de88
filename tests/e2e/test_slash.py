"""The slash commands on the whole program: what the desk behind them does."""

import base64
import json
import re

from tests.e2e.chatting import at_prompt, at_question, leave, prompts, send
from tests.e2e.program import Place, call, calls, says
from tests.terminal.pty_screen import PtyScreen

EDIT = calls(call("edit_file", path="cart.py", edits=[{"old": "b\n", "new": "B\n"}]))
WRITE = calls(call("write_file", path="new.txt", content="fresh\n"))
CODE = says("Two blocks:\n\n```python\nfirst = 1\n```\n\nand\n\n```\nsecond\n```\n")


def command(screen: PtyScreen, text: str) -> str:
    """Type a command; what it said."""
    at_prompt(screen)
    before, count = len(screen.all()), prompts(screen)
    screen.type(text + "\r")
    at_prompt(screen, count + 1)
    return "\n".join(screen.all()[before:-1])


def test_what_was_written_can_be_seen_counted_saved_and_taken_back(place: Place) -> None:
    place.write("cart.py", "a\nb\nc\n")
    replies = [calls(call("read_file", path="cart.py")), EDIT, says("Edited."), WRITE, says("Written."), CODE]
    with place.terminal("chat", replies=replies, env={"PATH": "/nonexistent"}) as (screen, _):
        assert command(screen, "/diff") == "Nothing is different from the start of this session."
        assert "No tool was called" in command(screen, "/tools stats")
        for _ in range(2):
            send(screen, "go")
            at_question(screen)
            screen.type("y")
        screen.wait_for("Written.")
        assert re.findall(r"^(\S+)  \+\d", command(screen, "/diff"), re.MULTILINE) == ["cart.py", "new.txt"]
        assert re.findall(r"^(\S+)  \+\d", command(screen, "/diff turn"), re.MULTILINE) == ["new.txt"]
        assert "-b\n+B" in command(screen, "/diff cart.py")
        assert re.search(r"^edit_file +1 +1 +0 +0 ", command(screen, "/tools stats"), re.MULTILINE)
        history = command(screen, "/history")
        assert re.findall(r"modified|created", history) == ["modified", "created"]
        first = history[:4]
        assert "new.txt is removed" in command(screen, "/undo")
        assert not (place.project / "new.txt").exists()
        assert f"(undo of {first}, now " in command(screen, f"/undo {first}")
        assert place.files()["cart.py"] == b"a\nb\nc\n"
        assert "together" in command(screen, "/context")
        send(screen, "show code")
        screen.wait_for("second")
        assert "Code block 2 was sent" in command(screen, "/copy 2")
        assert b"\x1b]52;c;" + base64.b64encode(b"second\n") + b"\x07" in screen.raw
        assert "2 code blocks" in command(screen, "/copy 3")
        assert command(screen, "/save talk.md") == "Saved to talk.md."
        assert command(screen, "/save talk.json") == "Saved to talk.json."
        assert "exists already" in command(screen, "/save talk.md")
        leave(screen)
    assert "## You\n\ngo\n" in place.files()["talk.md"].decode()
    assert len(json.loads(place.files()["talk.json"])) == 12


def test_a_conversation_can_be_left_and_found_again(place: Place) -> None:
    with place.terminal("chat", replies=[says("One."), says("Two."), says("Three.")]) as (screen, simulator):
        send(screen, "the first thing")
        screen.wait_for("One.")
        old = re.search(r"The old one stays: /resume (\w+)", command(screen, "/clear"))
        assert old is not None
        send(screen, "something else")
        screen.wait_for("Two.")
        assert "the first thing" not in str(simulator.requests[1].contents)
        said = command(screen, f"/resume {old[1]}")
        assert "> the first thing" in said and "One." in said
        send(screen, "and now?")
        screen.wait_for("Three.")
        assert "the first thing" in str(simulator.requests[2].contents)
        assert "something else" not in str(simulator.requests[2].contents)
        leave(screen)
