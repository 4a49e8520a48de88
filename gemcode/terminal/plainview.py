"""A turn as lines that are printed once and stay: for linear mode, and for `ask`. Nothing is ever rewritten."""

import time
from collections.abc import Callable
from typing import assert_never

from gemcode.agent.events import Event, Notice, StepFinished, StepStarted, ToolFinished, ToolStarted, TurnFinished
from gemcode.agent.model import Retrying, TextDelta, ThoughtDelta
from gemcode.terminal import view
from gemcode.terminal.look import Look
from gemcode.terminal.paint import Line, paint_all
from gemcode.terminal.safe import escape

Write = Callable[[str], None]


class PlainView:
    """A sink. Text goes to `answer` by whole lines, escaped; everything else goes to `tell`."""

    interval = 5.0  # seconds of silence after which it says that it still works

    def __init__(self, answer: Write, tell: Write, look: Look, columns: Callable[[], int]) -> None:
        self._answer = answer
        self._tell = tell
        self._look = look
        self._columns = columns
        self._marks = view.marks_for(unicode=look.unicode)
        self._open = ""  # text that is not yet a whole line
        self._shown = False  # text of this step was shown
        self._doing = ""
        self._since = self._heard = time.monotonic()

    def __call__(self, event: Event) -> None:
        self._heard = time.monotonic()
        match event:
            case TextDelta():
                self._text(event.text)
            case ThoughtDelta() | TurnFinished():
                pass
            case Retrying():
                self._retry(event)
            case StepStarted():
                self._shown = False
                self.busy(f"waiting for {event.model}")
            case StepFinished():
                self.end_text()
            case ToolStarted():
                self.busy(f"{event.call.name} {event.subject}")
            case ToolFinished():
                self.show(view.tool_lines(event, self._marks, self._columns()))
            case Notice():
                self.show([view.notice_line(event, self._marks)])
            case _:
                assert_never(event)

    def show(self, lines: list[Line]) -> None:
        self.end_text()
        self._tell(paint_all(lines, self._look))

    def end_text(self) -> None:
        """What is left of a text that did not end with a newline."""
        if self._open:
            text, self._open = self._open, ""
            self._shown = True
            self._answer(escape(text) + "\n")

    def tick(self) -> None:
        """Called every `interval` seconds: a silent wait is told."""
        now = time.monotonic()
        if now - self._heard >= self.interval * 0.9:
            self._heard = now
            self.show([view.notice_line(Notice(f"{self._doing}  {now - self._since:.0f}s"), self._marks)])

    def pause(self) -> None:
        """Before a question: nothing may come after it."""
        self.end_text()

    close = pause

    def busy(self, doing: str) -> None:
        """What a tick says if nothing comes."""
        self._doing = doing
        self._since = time.monotonic()

    def _text(self, text: str) -> None:
        whole, newline, self._open = (self._open + text).rpartition("\n")
        if newline:
            self._shown = True
            self._answer(escape(whole + "\n"))

    def _retry(self, event: Retrying) -> None:
        self.end_text()
        if self._shown:
            self.show([view.notice_line(Notice("The text above was cut off and is void."), self._marks)])
        self._shown = False
        self.show([view.retry_line(event, event.delay)])
