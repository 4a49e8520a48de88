"""The live front's drawing: finished blocks are printed once, and only the open tail below them is rewritten."""

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, assert_never

from gemcode.agent.events import Event, Notice, StepFinished, StepStarted, ToolFinished, ToolStarted, TurnFinished
from gemcode.agent.model import Retrying, TextDelta, ThoughtDelta
from gemcode.terminal import view
from gemcode.terminal.look import Look, Size
from gemcode.terminal.paint import Line, Style, fit, line, paint, plain, width, wrap
from gemcode.terminal.safe import escape
from gemcode.terminal.stream import Block, BlockSplitter, Kind

if TYPE_CHECKING:
    from gemcode.terminal.markdown import MarkdownPainter

Write = Callable[[str], None]
Tell = Callable[[list[Line]], None]
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
ASCII_SPINNER = "|/-\\"
_sgr = re.compile("\x1b\\[[0-9;]*m")
KEPT_ROWS = 4  # the tail never fills the screen: erasing from the top row would push it into the scrollback


class Region:
    """The rows at the bottom that may be rewritten. One write per frame; the cursor rests at the end of the tail."""

    def __init__(self, write: Write, size: Callable[[], Size]) -> None:
        self._write = write
        self._size = size
        self._tail: list[str] = []  # as painted
        self._widths: list[int] = []

    def frame(self, printed: list[str], tail: list[tuple[str, int]]) -> None:
        """Print rows for good, then draw the tail anew: painted rows with their width in columns."""
        columns, rows = self._size()
        tail = tail[-max(rows - KEPT_ROWS, 1) :]
        drawn = [text for text, _ in tail]
        if not printed and drawn == self._tail:
            return
        same = 0
        if not printed and all(used <= columns for used in self._widths):
            while same < min(len(drawn), len(self._tail)) - 1 and drawn[same] == self._tail[same]:
                same += 1
        out = self._erasure(same, columns)
        out += "".join(f"{text}\n" for text in printed)
        out += "\n".join(drawn[same:])
        self._tail, self._widths = drawn, [used for _, used in tail]
        self._write(out)

    def erase(self) -> None:
        self.frame([], [])

    def _erasure(self, kept: int, columns: int) -> str:
        """Back to the first row that changes, line by line. After a resize the rows are counted as they wrapped."""
        if not self._tail:
            return ""
        heights = [max(1, -(-used // max(columns, 1))) for used in self._widths[kept:]]
        return "\r\x1b[2K" + "\x1b[1A\x1b[2K" * (sum(heights) - 1)


class LiveView:
    """A sink for one turn: markdown in finished blocks, a spinner while nothing comes, one line per call."""

    interval = 0.1

    def __init__(self, region: Region, tell: Tell | None, look: Look, size: Callable[[], Size]) -> None:
        self._region = region
        self._tell = tell  # where all but the answer goes, if not to the same screen
        self._look = look
        self._size = size
        self._marks = view.marks_for(unicode=look.unicode)
        self._blocks = BlockSplitter()
        self._partial = ""  # the raw text of the line that has not ended
        self._finished: list[Block] = []  # to draw and print with the next frame
        self._shown = False  # text of this step was shown
        self._doing: str | None = None
        self._since = time.monotonic()
        self._retry: tuple[Retrying, float] | None = None
        self._painter: MarkdownPainter | None = None
        self._paused = False

    def __call__(self, event: Event) -> None:
        self._paused = False
        if not isinstance(event, Retrying):
            self._end_retry()
        match event:
            case TextDelta():
                self._text(event.text)
            case ThoughtDelta():
                self.busy("thinking", keep=True)
            case TurnFinished():
                pass
            case Retrying():
                self._begin_retry(event)
            case StepStarted():
                self._shown = False
                self.busy(f"waiting for {escape(event.model, single_line=True)}")
            case StepFinished():
                self._end_text()
                self._doing = None
            case ToolStarted():
                self.busy(escape(f"{event.call.name} {event.subject}", single_line=True))
            case ToolFinished():
                self._doing = None
                self.show(view.tool_lines(event, self._marks, self._size().columns))
            case Notice():
                self.show([view.notice_line(event, self._marks)])
            case _:
                assert_never(event)

    def show(self, lines: list[Line]) -> None:
        """Print lines for good, at once."""
        self._end_text()
        if self._tell is None:
            rows = [paint(row, self._look) for one in lines for row in wrap(one, self._size().columns)]
            self._region.frame(self._take_printed() + rows, self._tail())
        else:
            self._region.frame(self._take_printed(), [])
            self._tell(lines)

    def tick(self) -> None:
        """Draw a frame, if anything changed."""
        if not self._paused:
            self._region.frame(self._take_printed(), self._tail())

    def pause(self) -> None:
        """Take the tail away until the next event: a question follows, or a suspend."""
        self._paused = True
        self._region.frame(self._take_printed(), [])

    def close(self) -> None:
        self._end_text()
        self._end_retry()
        self._doing = None
        self.pause()

    def busy(self, doing: str, *, keep: bool = False) -> None:
        """Say what is being waited for. `doing` is escaped."""
        if not keep or self._doing is None:
            self._since = time.monotonic()
        self._doing = doing

    def _text(self, text: str) -> None:
        self._doing = None
        *whole, self._partial = (self._partial + text).split("\n")
        blocks: list[Block] = []
        for one in whole:
            blocks += self._blocks.feed(escape(one.removesuffix("\r")))
        self._draw(blocks)

    def _end_text(self) -> None:
        """The text of a step is over: what is open is finished as it is."""
        blocks = self._blocks.feed(escape(self._partial)) if self._partial else []
        self._draw(blocks + self._blocks.finish())
        self._partial, self._blocks = "", BlockSplitter()

    def _draw(self, blocks: list[Block]) -> None:
        if blocks:
            self._shown = True
            self._finished += blocks

    def _take_printed(self) -> list[str]:
        """The rows of finished blocks. Drawn only now: many lines of code at once cost little more than one."""
        if not self._finished:
            return []
        blocks, self._finished = self._finished, []
        return self._markdown().draw(blocks, self._size().columns)

    def _tail(self) -> list[tuple[str, int]]:
        columns = self._size().columns
        if self._retry is not None:
            event, until = self._retry
            remaining = until - time.monotonic() + 0.5
            return [self._row(view.retry_line(event, remaining, columns - 1, self._marks.more), columns)]
        busy = [self._row(self._spinner(self._doing), columns)] if self._doing is not None else []
        return self._open_rows(columns) + busy

    def _open_rows(self, columns: int) -> list[tuple[str, int]]:
        block = self._blocks.preview(escape(self._partial))
        if block is None:
            return []
        if block.kind is Kind.CODE:
            gap = [("", 0)] if block.gap else []
            return [*gap, self._row(line(block.text.expandtabs(8)), columns)]
        rows = self._markdown().rows(block, columns)
        return [(text, width(_sgr.sub("", text))) for text in rows]

    def _row(self, of: Line, columns: int) -> tuple[str, int]:
        fitted = fit(of, columns - 1, self._marks.cut)
        return paint(fitted, self._look), width(plain(fitted))

    def _spinner(self, doing: str) -> Line:
        elapsed = time.monotonic() - self._since
        frames = SPINNER if self._look.unicode else ASCII_SPINNER
        mark = frames[int(elapsed * 10) % len(frames)]
        return line((Style.DIM, f"{mark} {doing}  {elapsed:.0f}s   Ctrl-C cancels"))

    def _begin_retry(self, event: Retrying) -> None:
        self._end_text()
        if self._shown:
            self.show([view.notice_line(Notice("The text above was cut off and is void."), self._marks)])
        self._shown = False
        self._end_retry()
        self._retry = (event, time.monotonic() + event.delay)
        self.tick()

    def _end_retry(self) -> None:
        """One line remains of a wait."""
        if self._retry is None:
            return
        event, until = self._retry
        self._retry = None
        waited = max(event.delay - max(until - time.monotonic(), 0), 0)
        reason = escape(event.reason, single_line=True).rstrip(".")
        self.show([view.notice_line(Notice(f"waited {waited:.0f} s: {reason}"), self._marks)])
        self.busy("waiting for the answer")

    def _markdown(self) -> "MarkdownPainter":
        if self._painter is None:
            from gemcode.terminal.markdown import MarkdownPainter  # slow to load: behind the prompt, not before it

            self._painter = MarkdownPainter(self._look)
        return self._painter
