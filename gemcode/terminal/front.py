"""The live front of the REPL: the input line, the questions and the live views on a real terminal."""

import base64
import signal

from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.input import Input
from prompt_toolkit.output import Output

from gemcode.agent.events import Notice
from gemcode.agent.policy import Mode
from gemcode.terminal import tty, view
from gemcode.terminal.approval import Approval, Editor, Key
from gemcode.terminal.commands import approve_text
from gemcode.terminal.live import LiveView, Region
from gemcode.terminal.look import Look
from gemcode.terminal.paint import Line
from gemcode.terminal.prompt import PromptLine
from gemcode.terminal.questions import LiveInterviewer
from gemcode.terminal.safe import write_stdout
from gemcode.terminal.session import ReplSession

RESET = "\x1b[0m\x1b[?25h"  # attributes off, cursor visible


class LiveFront(LiveInterviewer):
    """Prompt, questions and views on one terminal."""

    def __init__(
        self,
        session: ReplSession,
        look: Look,
        editor: Editor,
        modes: tty.Modes,
        streams: tuple[Input, Output] | None = None,
    ) -> None:
        super().__init__(look, modes, streams, self._pause_view)
        self.approval = Approval(self, editor)
        self._session = session
        self._prompt = PromptLine(look, session.files, session.history_file, self._switch_mode, self.streams)
        self._region = Region(write_stdout, self.size)
        self._view: LiveView | None = None

    def new_view(self) -> LiveView:
        self.drop_input()  # what was typed behind the prompt belongs to nobody
        self._view = LiveView(self._region, None, self.look, self.size)
        return self._view

    async def read_prompt(self) -> str:
        self._view = None
        write_stdout(RESET)
        with tty.default_action(signal.SIGTSTP):  # prompt_toolkit's own way to stop, and to draw again
            return await self._prompt.read()

    async def read_line(self, question: Line) -> str:
        text = await self.text(question)
        return "" if isinstance(text, Key) else text

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

    def _pause_view(self) -> None:
        if self._view is not None:
            self._view.pause()

    def _switch_mode(self) -> None:
        """Shift-Tab: ask → edits → ask. It never leads to `all`."""
        conversation = self._session.conversation
        conversation.mode = Mode.EDITS if conversation.mode is Mode.ASK else Mode.ASK
        said = view.notice_line(Notice(approve_text(conversation.mode)), self.marks)
        run_in_terminal(lambda: self.show([said]))
