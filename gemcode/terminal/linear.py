"""The plain front: lines in, lines out, nothing rewritten. For dumb terminals, screen readers, pipes and CI."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence

from gemcode.terminal import tty, view
from gemcode.terminal.approval import Approval, Key
from gemcode.terminal.look import Look, Size, terminal_size
from gemcode.terminal.paint import Line, line, paint, paint_all
from gemcode.terminal.plainview import PlainView
from gemcode.terminal.safe import write_stdout

DEAF = 0.3  # seconds after a question in which nothing typed can be an answer to it


class LineReader:
    """Lines from a descriptor without blocking the loop. A terminal does the editing itself."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = b""

    async def read(self) -> str:
        """One line without its end. Raises EOFError, or Interrupted for Ctrl-C."""
        while b"\n" not in self._buffer:
            chunk = await self._chunk()
            if not chunk:
                rest, self._buffer = self._buffer, b""
                if not rest:
                    raise EOFError
                return rest.decode("utf-8", "replace")
            self._buffer += chunk
        text, _, self._buffer = self._buffer.partition(b"\n")
        return text.decode("utf-8", "replace").removesuffix("\r")

    def drop(self) -> None:
        """Forget what came before a question."""
        self._buffer = b""
        tty.flush_input(self._descriptor)

    async def _chunk(self) -> bytes:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[bytes] = loop.create_future()

        def settle(error: BaseException | None = None) -> None:
            if not ready.done():
                if error is not None:
                    ready.set_exception(error)
                else:
                    ready.set_result(self._read_now())

        with tty.on_signal(signal.SIGINT, lambda: settle(tty.Interrupted())):
            try:
                loop.add_reader(self._descriptor, settle)
            except OSError:  # a regular file: never blocks, so there is nothing to wait for
                return self._read_now()
            try:
                return await ready
            finally:
                loop.remove_reader(self._descriptor)

    def _read_now(self) -> bytes:
        try:
            return os.read(self._descriptor, 65536)
        except OSError:  # the terminal went away
            return b""


class LinearFront:
    """Prompt, questions and views in plain lines."""

    def __init__(self, modes: tty.Modes, look: Look, editor: Callable[[str, bytes], Awaitable[bytes]]) -> None:
        keys = modes.descriptor
        self.modes = modes
        self.look = look
        self.marks = view.marks_for(unicode=look.unicode)
        self.pause: Callable[[], None] = lambda: None
        self.approval = Approval(self, editor)
        self._reader = LineReader(keys)
        self.watch = tty.EscapeWatch(keys)
        self._asks = tty.is_terminal(keys)

    def size(self) -> Size:
        return terminal_size()

    def show(self, lines: Sequence[Line]) -> None:
        write_stdout(paint_all(lines, self.look))

    def new_view(self) -> PlainView:
        fresh = PlainView(write_stdout, write_stdout, self.look, lambda: self.size().columns)
        self.pause = fresh.pause
        return fresh

    async def read_prompt(self) -> str:
        """What the person wants; a trailing backslash goes on in the next line."""
        try:
            self._ask("> ")
            text = await self._reader.read()
            while text.endswith("\\"):
                self._ask(". ")
                text = text[:-1] + "\n" + await self._reader.read()
        except (EOFError, tty.Interrupted):
            self._ask("\n")  # what is said next gets a line of its own
            raise
        return text

    async def read_line(self, question: Line) -> str:
        self._ask(paint(question, self.look))
        return await self._reader.read()

    async def key(self, question: Line, letters: str) -> str:
        """A letter and Enter. What was typed before the question could be read is dropped."""
        if not self._asks:
            return Key.STOP
        while True:
            text = await self._answer(line(*question, " "))
            if isinstance(text, Key):
                return text
            if len(text.strip()) == 1 and text.strip().lower() in letters:
                return text.strip().lower()

    async def text(self, question: Line, *, typed: bool = False) -> str | Key:
        return await self._answer(question) if self._asks else Key.STOP

    def copy_through_terminal(self, text: str) -> bool:
        return False

    def warm_up(self) -> None:
        """Nothing to load."""

    def close(self) -> None:
        """Nothing to put back."""

    async def _answer(self, question: Line) -> str | Key:
        self.pause()
        with self.watch.paused(), self.modes.lent():
            return await self._answer_once(question)

    async def _answer_once(self, question: Line) -> str | Key:
        loop = asyncio.get_running_loop()
        while True:
            self._reader.drop()
            self._ask(paint(question, self.look))
            asked = loop.time()
            try:
                text = await self._reader.read()
            except (EOFError, tty.Interrupted):
                write_stdout("\n")
                return Key.STOP
            if loop.time() - asked >= DEAF:
                return text

    def _ask(self, text: str) -> None:
        if self._asks:
            write_stdout(text)
