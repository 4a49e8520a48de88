"""What a person does in the chat, on a real terminal: wait for the prompt, type, answer, leave."""

import time

from tests.terminal.pty_screen import CTRL_D, ENTER, PtyScreen

DEAF = 0.45  # a little more than the time in which a question hears nothing


def prompts(screen: PtyScreen) -> int:
    return sum(row.startswith(">") for row in screen.all())


def at_prompt(screen: PtyScreen, number: int = 1) -> None:
    """Wait for the prompt, the nth of them, with nothing typed yet."""
    screen.wait_until(lambda: screen.visible()[-1:] == [">"] and prompts(screen) >= number, what=f"prompt {number}")


def send(screen: PtyScreen, text: str) -> None:
    """Type a prompt and send it."""
    at_prompt(screen)
    screen.type(text + ENTER)


def at_question(screen: PtyScreen, beginning: str = "Write") -> str:
    """Wait until a question is the last thing on the screen and hears; the question."""
    screen.wait_until(lambda: (screen.visible() or [""])[-1].startswith(beginning), what=f"question {beginning}")
    time.sleep(DEAF)
    return screen.visible()[-1]


def leave(screen: PtyScreen) -> None:
    at_prompt(screen)
    screen.type(CTRL_D)
    assert screen.wait_for_end() == 0
    assert_as_before(screen)


def assert_as_before(screen: PtyScreen) -> None:
    """Statement 40: the modes are those from before, the cursor is visible, bracketed paste is off."""
    assert screen.modes_after() == screen.modes_before
    assert not screen.cursor_hidden()
    assert screen.raw.rfind(b"\x1b[?2004l") >= screen.raw.rfind(b"\x1b[?2004h")
