"""The input line: several lines, pastes as placeholders, history of this project, completion for / and @."""

import re
import signal
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions, is_searching
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent, merge_key_bindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import Dimension, Window, to_dimension
from prompt_toolkit.layout.menus import CompletionsMenuControl
from prompt_toolkit.output import Output
from prompt_toolkit.shortcuts import PromptSession

from gemcode.terminal.commands import COMMANDS
from gemcode.terminal.look import Look, terminal_size
from gemcode.terminal.questions import color_depth
from gemcode.terminal.safe import escape
from gemcode.terminal.tty import Interrupted, on_signal

PASTE_LINES = 8
PASTE_CHARACTERS = 1_000
SUGGESTIONS = 50  # files offered at most
_mention = re.compile(r'(?:^|\s)@"?([^\s"]*)$')


class Pastes:
    """Long pasted texts, each behind a placeholder until the prompt is sent."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def hold(self, text: str) -> str:
        """What to put on the line for a pasted text: itself, if it is short."""
        lines = text.count("\n") + (not text.endswith("\n"))
        if lines <= PASTE_LINES and len(text) <= PASTE_CHARACTERS:
            return text
        placeholder = f"[Pasted text #{len(self._texts) + 1}, {lines} lines]"
        self._texts[placeholder] = text
        return placeholder

    def expand(self, line: str) -> str:
        for placeholder, text in self._texts.items():
            line = line.replace(placeholder, text)
        return line


class ProjectHistory(FileHistory):
    """The prompts of this project. On disk a paste is kept whole, since its placeholder means nothing later."""

    def __init__(self, path: Path, pastes: Pastes) -> None:
        super().__init__(str(path))
        self._pastes = pastes

    def load_history_strings(self) -> Iterable[str]:
        try:
            yield from super().load_history_strings()
        except OSError:
            return

    def store_string(self, string: str) -> None:
        try:
            super().store_string(self._pastes.expand(string).encode("utf-8", "replace").decode())
        except OSError:  # no history is better than no prompt
            return


class PromptCompleter(Completer):
    """`/` at the start completes commands, `@` anywhere completes project files."""

    def __init__(self, files: Callable[[], Sequence[str]]) -> None:
        self._files = files
        self._known: list[str] | None = None

    def forget_files(self) -> None:
        """Ask for the files again at the next @."""
        self._known = None

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        if text.startswith("/") and " " not in text and "\n" not in text:
            for command in _matching_commands(text):
                yield Completion(command, -len(text), display_meta=COMMANDS[command].summary)
            return
        mention = _mention.search(text)
        if mention is not None:
            wanted = mention[1]
            for path in closest(wanted, self._paths()):
                quoted = f'"{path}"' if " " in path else path
                start = -len(wanted) - text[mention.start(1) - 1 :].startswith('"')
                yield Completion(quoted, start, display=path)

    def _paths(self) -> list[str]:
        if self._known is None:
            paths = {path for path in self._files() if path.isprintable() and escape(path, single_line=True) == path}
            folders = {path[: index + 1] for path in paths for index, letter in enumerate(path) if letter == "/"}
            self._known = sorted(paths | folders)
        return self._known


def _matching_commands(text: str) -> list[str]:
    begins = [name for name in COMMANDS if name.startswith(text)]
    return begins or [name for name in COMMANDS if text[1:] in name]


def closest(wanted: str, paths: Iterable[str]) -> list[str]:
    """Paths that fit what was typed, best first: beginning, name, part, then letters in order."""
    wanted = wanted.lower()
    scored = []
    for path in paths:
        lower = path.lower()
        name = lower.rstrip("/").rpartition("/")[2]
        if lower.startswith(wanted):
            score = 0
        elif name.startswith(wanted):
            score = 1
        elif wanted in lower:
            score = 2
        elif _in_order(wanted, lower):
            score = 3
        else:
            continue
        scored.append((score, path.rstrip("/").count("/"), path))
    return [path for _, _, path in sorted(scored)[:SUGGESTIONS]]


def _in_order(letters: str, text: str) -> bool:
    rest = iter(text)
    return all(letter in rest for letter in letters)


class PromptLine:
    """Reads one prompt at a time. On an empty line Ctrl-D raises EOFError and Ctrl-C Interrupted."""

    def __init__(
        self,
        look: Look,
        files: Callable[[], Sequence[str]],
        history_file: Path | None,
        switch_mode: Callable[[], None],
        streams: tuple[Input, Output],
    ) -> None:
        self._pastes = Pastes()
        self._cleared = ""  # what Ctrl-C took away, for Ctrl-Y
        self._switch_mode = switch_mode
        self._completer = PromptCompleter(files)
        history: History = ProjectHistory(history_file, self._pastes) if history_file else InMemoryHistory()
        self._session: PromptSession[str] = PromptSession(
            message=[("bold", "> ")],
            multiline=True,
            prompt_continuation="  ",
            history=history,
            completer=self._completer,
            complete_in_thread=True,
            key_bindings=merge_key_bindings([self._typing_keys(), self._command_keys()]),
            enable_open_in_editor=True,
            enable_suspend=True,
            tempfile_suffix=".md",
            color_depth=color_depth(look),
            input=streams[0],
            output=streams[1],
        )
        for window in self._session.layout.find_all_windows():
            if isinstance(window.content, CompletionsMenuControl):
                window.height = lambda: Dimension(min=1, max=_menu_rows())
        _keep_search_near(self._session.layout.current_window)
        self._session.app.ttimeoutlen = 0.05
        self._session.app.timeoutlen = 0.3

    async def read(self) -> str:
        self._completer.forget_files()
        self._session.reserve_space_for_menu = _menu_rows()
        with on_signal(signal.SIGINT, self._session.app.key_processor.send_sigint):
            text = await self._session.prompt_async(handle_sigint=False)
        self._cleared = ""
        return self._pastes.expand(text)

    def _typing_keys(self) -> KeyBindings:
        bindings = KeyBindings()

        @bindings.add("enter")
        def send(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.document.text_before_cursor.endswith("\\"):
                buffer.delete_before_cursor()
                buffer.insert_text("\n")
            else:
                buffer.validate_and_handle()

        @bindings.add("escape", "enter")
        @bindings.add("c-j")
        def new_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @bindings.add(Keys.BracketedPaste)
        def paste(event: KeyPressEvent) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            event.current_buffer.insert_text(self._pastes.hold(text))

        @bindings.add("tab")
        def complete(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            typed = buffer.document.text_before_cursor
            if buffer.complete_state is not None:
                buffer.complete_next()
            elif typed.startswith("/") and len(found := _matching_commands(typed)) == 1:
                buffer.insert_text(found[0].removeprefix(typed))
            else:
                buffer.start_completion()

        return bindings

    def _command_keys(self) -> KeyBindings:
        bindings = KeyBindings()
        is_empty = Condition(lambda: not self._session.default_buffer.text)

        @bindings.add("c-c", filter=~is_searching)  # in a search it ends the search
        @bindings.add(Keys.SIGINT)
        def interrupt(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.text:
                self._cleared = buffer.text
                buffer.reset()
            else:
                event.app.exit(exception=Interrupted, style="class:aborting")

        @bindings.add("c-y", filter=is_empty & Condition(lambda: bool(self._cleared)))
        def restore(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text(self._cleared)

        @bindings.add("?", filter=is_empty)
        def explain(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("/help")
            event.current_buffer.validate_and_handle()

        @bindings.add("s-tab", filter=~has_completions)
        def switch(event: KeyPressEvent) -> None:
            self._switch_mode()

        @bindings.add("escape", filter=has_completions)
        def close_menu(event: KeyPressEvent) -> None:
            event.current_buffer.cancel_completion()

        return bindings


def _keep_search_near(line: Window) -> None:
    """While C-r searches, its row is right below the input line, not at the bottom of the screen."""
    reserved = line.height
    line.height = lambda: Dimension() if is_searching() else to_dimension(reserved)
    line.dont_extend_height = is_searching


def _menu_rows() -> int:
    """Rows for the completion menu: few, so that a low terminal does not scroll."""
    return max(min(8, terminal_size().rows // 3), 1)
