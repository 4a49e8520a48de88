"""The live front: the input line, single-key questions and live views on a real terminal."""

import asyncio
import base64
from collections.abc import Sequence

from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.filters import Always
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.shortcuts import PromptSession

from gemcode.agent.events import Notice
from gemcode.agent.policy import Mode
from gemcode.terminal import tty, view
from gemcode.terminal.approval import Approval, Editor, Key
from gemcode.terminal.commands import approve_text
from gemcode.terminal.live import LiveView, Region
from gemcode.terminal.look import Look, Size, terminal_size
from gemcode.terminal.paint import Line, line, paint, paint_all
from gemcode.terminal.prompt import PromptLine, color_depth
from gemcode.terminal.safe import write_stdout
from gemcode.terminal.session import ReplSession

DEAF = 0.3  # seconds after a question was painted in which no key counts
RESET = "\x1b[0m\x1b[?25h"  # attributes off, cursor visible


class LiveFront:
    """Prompt, questions and views. Also the Interviewer of the confirm."""

    def __init__(
        self,
        session: ReplSession,
        look: Look,
        editor: Editor,
        keys: int,
        streams: tuple[Input, Output] | None = None,
    ) -> None:
        self.look = look
        self.keys = keys
        self.marks = view.marks_for(unicode=look.unicode)
        self.watch = tty.EscapeWatch(keys)
        self.approval = Approval(self, editor)
        self._session = session
        self._input, self._output = streams or (create_input(), create_output())
        self._prompt = PromptLine(
            look, session.files, session.history_file, self._switch_mode, (self._input, self._output)
        )
        self._region = Region(write_stdout, self.size)
        self._view: LiveView | None = None

    def size(self) -> Size:
        return terminal_size()

    def show(self, lines: Sequence[Line]) -> None:
        if self._view is not None:
            self._view.pause()
        write_stdout(paint_all(lines, self.look))

    def new_view(self) -> LiveView:
        clear_typeahead(self._input)  # what was typed behind the prompt belongs to nobody
        self._view = LiveView(self._region, None, self.look, self.size)
        self._view.declined = self.approval.declined
        return self._view

    async def read_prompt(self) -> str:
        self._view = None
        write_stdout(RESET)
        return await self._prompt.read()

    async def read_line(self, question: Line) -> str:
        text = await self.text(question)
        return "" if isinstance(text, Key) else text

    async def key(self, question: Line, letters: str) -> str:
        """One key, no Enter. What was typed or pasted before the question could be read does not count."""
        if self._view is not None:
            self._view.pause()
        with self.watch.paused():
            self._drop_input()
            return await _KeyQuestion(question, letters, self.look).ask(self._input, self._output)

    async def text(self, question: Line, *, typed: bool = False) -> str | Key:
        with self.watch.paused():
            self._drop_input()
            return await _ask_text(question, self.look, (self._input, self._output), typed=typed)

    def copy_through_terminal(self, text: str) -> bool:
        data = base64.b64encode(text.encode("utf-8", "replace")).decode()
        write_stdout(f"\x1b]52;c;{data}\x07")
        return True

    def warm_up(self) -> None:
        """Load what the first answer will need."""
        import gemcode.terminal.markdown  # noqa: F401 - slow, so it happens in a thread behind the prompt

    def close(self) -> None:
        self._region.erase()
        write_stdout(RESET)

    def _drop_input(self) -> None:
        """Both stores: the terminal's, and what prompt_toolkit has read already."""
        self._input.flush_keys()
        clear_typeahead(self._input)
        tty.flush_input(self.keys)

    def _switch_mode(self) -> None:
        """Shift-Tab: ask → edits → ask. It never leads to `all`."""
        conversation = self._session.conversation
        conversation.mode = Mode.EDITS if conversation.mode is Mode.ASK else Mode.ASK
        said = view.notice_line(Notice(approve_text(conversation.mode)), self.marks)
        run_in_terminal(lambda: write_stdout(paint(said, self.look) + "\n"))


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
            event.app.renderer.clear()

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
        key_bindings=bindings, color_depth=color_depth(look), input=streams[0], output=streams[1]
    )
    session.app.ttimeoutlen = session.app.timeoutlen = 0.05
    try:
        return await session.prompt_async(ANSI(paint(question, look)), handle_sigint=False)
    except (EOFError, KeyboardInterrupt):
        return Key.STOP
    except _Escaped:
        return Key.ESCAPE


class _Escaped(Exception):
    """Esc was pressed instead of an answer."""
