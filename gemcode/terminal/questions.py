"""Questions on a real terminal: one key or one line. What came before it could be read does not count."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator, Sequence

from prompt_toolkit.application import Application
from prompt_toolkit.filters import Always
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.output import ColorDepth, Output, create_output
from prompt_toolkit.shortcuts import PromptSession

from gemcode.terminal import tty, view
from gemcode.terminal.approval import Key
from gemcode.terminal.look import Colour, Look, Size, terminal_size
from gemcode.terminal.paint import Line, line, paint, paint_all, wrap
from gemcode.terminal.safe import write_stdout

DEAF = 0.3  # seconds after a question was painted in which no key counts


class LiveInterviewer:
    """The Interviewer of the confirm. `pause` takes away whatever moves on the screen."""

    def __init__(
        self,
        look: Look,
        modes: tty.Modes,
        streams: tuple[Input, Output] | None = None,
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        self.look = look
        self.modes = modes
        self.marks = view.marks_for(unicode=look.unicode)
        self.watch = tty.EscapeWatch(modes.descriptor)
        self.pause = pause
        self.streams = streams or (create_input(), create_output())

    def size(self) -> Size:
        return terminal_size()

    def show(self, lines: Sequence[Line]) -> None:
        self.pause()
        columns = self.size().columns
        write_stdout(paint_all((row for one in lines for row in wrap(one, columns)), self.look))

    async def key(self, question: Line, letters: str) -> str:
        """One key, no Enter."""
        self.pause()
        with self._alone():
            return await _KeyQuestion(question, letters, self.look).ask(*self.streams)

    async def text(self, question: Line, *, typed: bool = False) -> str | Key:
        self.pause()
        with self._alone():
            return await _ask_text(question, self.look, self.streams, typed=typed)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else reads keys, and Ctrl-Z stops at once: prompt_toolkit draws again as soon as it is back."""
        with self.watch.paused(), tty.default_action(signal.SIGTSTP):
            self.drop_input()
            yield

    def drop_input(self) -> None:
        """Both stores: the terminal's, and what prompt_toolkit has read already."""
        self.streams[0].flush_keys()
        clear_typeahead(self.streams[0])
        tty.flush_input(self.modes.descriptor)


def color_depth(look: Look) -> ColorDepth:
    return ColorDepth.DEPTH_4_BIT if look.colour is Colour.FULL else ColorDepth.DEPTH_1_BIT


class _KeyQuestion:
    """A one-line question that a single key answers. The answer stays on the screen behind it."""

    def __init__(self, question: Line, letters: str, look: Look) -> None:
        self._question = question
        self._look = look
        self._painted: float | None = None
        self._answer = ""
        self._bindings = KeyBindings()
        for letter in letters:
            self._on(letter, letter, letter)
        self._on(Keys.ControlC, Key.STOP, "stop")
        self._on(Keys.ControlD, Key.STOP, "stop")
        self._on(Keys.Escape, Key.ESCAPE, "no")

        @self._bindings.add(Keys.Any)
        @self._bindings.add(Keys.BracketedPaste)
        def ignore(event: KeyPressEvent) -> None:
            _drop_waiting(event)
            event.app.invalidate()

        @self._bindings.add("c-l")
        def redraw(event: KeyPressEvent) -> None:
            if not event.app.is_done:
                event.app.renderer.clear()
                event.app.erase_when_done = True
                event.app.exit(result=Key.REDRAW)

        @self._bindings.add("c-z")
        def suspend(event: KeyPressEvent) -> None:
            event.app.suspend_to_background()

    async def ask(self, keys: Input, screen: Output) -> str:
        app: Application[str] = Application(
            layout=Layout(
                Window(
                    FormattedTextControl(self._shown, show_cursor=False),
                    wrap_lines=True,
                    dont_extend_height=Always(),
                    always_hide_cursor=False,
                )
            ),
            key_bindings=self._bindings,
            color_depth=color_depth(self._look),
            input=keys,
            output=screen,
        )
        app.ttimeoutlen = 0.05
        app.after_render += self._note_painted
        return await app.run_async(handle_sigint=False)

    def _shown(self) -> ANSI:
        return ANSI(paint(line(*self._question, f"  {self._answer}"), self._look))

    def _note_painted(self, app: "Application[str]") -> None:
        if self._painted is None:
            self._painted = asyncio.get_running_loop().time()

    def _on(self, key: str, result: str, shown: str) -> None:
        @self._bindings.add(key, eager=key is Keys.Escape)
        def answer(event: KeyPressEvent) -> None:
            if _drop_waiting(event):
                return
            hears = self._painted is not None and asyncio.get_running_loop().time() - self._painted >= DEAF
            if (hears or result == Key.STOP) and not event.app.is_done:
                self._answer = shown
                event.app.exit(result=result)


def _drop_waiting(event: KeyPressEvent) -> bool:
    """Several keys at once are a paste, not an answer: all of them go. The terminal's own reports stay."""
    queue = event.app.key_processor.input_queue
    reports = [press for press in queue if press.key is Keys.CPRResponse]
    dropped = len(queue) > len(reports)
    queue.clear()
    queue.extend(reports)
    return dropped


async def _ask_text(question: Line, look: Look, streams: tuple[Input, Output], *, typed: bool) -> str | Key:
    """A line of text. `typed`: it is a consent, so a paste does not count."""
    bindings = KeyBindings()

    @bindings.add("escape")
    def decline(event: KeyPressEvent) -> None:
        event.app.exit(exception=_Escaped)

    @bindings.add("c-z")
    def suspend(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    if typed:

        @bindings.add(Keys.BracketedPaste)
        def ignore(event: KeyPressEvent) -> None:
            event.app.invalidate()

    session: PromptSession[str] = PromptSession(
        key_bindings=bindings,
        color_depth=color_depth(look),
        interrupt_exception=tty.Interrupted,
        input=streams[0],
        output=streams[1],
    )
    session.app.ttimeoutlen = session.app.timeoutlen = 0.05
    try:
        return await session.prompt_async(ANSI(paint(question, look)), handle_sigint=False)
    except (EOFError, tty.Interrupted):
        return Key.STOP
    except _Escaped:
        return Key.ESCAPE


class _Escaped(Exception):
    """Esc was pressed instead of an answer."""
