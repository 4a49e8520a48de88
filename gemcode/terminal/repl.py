"""The REPL: read a prompt, run a turn or a command, say what came of it, until the person leaves."""

import asyncio
import contextlib
import re
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from gemcode.agent.errors import GemcodeError, UsageError
from gemcode.agent.events import Notice, Outcome, Status
from gemcode.agent.messages import Text, Usage, UserMessage
from gemcode.agent.tool import Answer, ApprovalRequest
from gemcode.terminal import programs, tty, view
from gemcode.terminal.approval import Approval, Editor, Key
from gemcode.terminal.commands import Ledger, find_command
from gemcode.terminal.linear import LinearFront
from gemcode.terminal.look import Look, choose_look, terminal_size
from gemcode.terminal.paint import Line, Style, line
from gemcode.terminal.safe import StdoutClosed, escape
from gemcode.terminal.session import ReplSession
from gemcode.terminal.turn import TurnView, run_cancellable, run_turn

SETTLED = 0.01  # seconds until the loop is free again after the prompt was drawn: what loads must not delay it
_output_mention = re.compile(r"(?<!\S)@!(?!\S)")
LEAVE_SECONDS = 2.0  # in which a second Ctrl-C on an empty prompt leaves


class Front(Protocol):
    """How the REPL meets the person: plain lines, or a live terminal."""

    modes: tty.Modes
    look: Look
    marks: view.Marks
    approval: Approval
    watch: tty.EscapeWatch

    def show(self, lines: Sequence[Line]) -> None: ...

    def new_view(self) -> TurnView: ...

    async def read_prompt(self) -> str: ...

    async def read_line(self, question: Line) -> str: ...

    async def key(self, question: Line, letters: str) -> str: ...

    def copy_through_terminal(self, text: str) -> bool: ...

    def warm_up(self) -> None: ...

    def close(self) -> None: ...


class Repl:
    """One interactive session; `run` gives the exit code."""

    def __init__(self, session: ReplSession, front: Front) -> None:
        self.session = session
        self.ledger = Ledger()
        self._front = front
        self._interrupted = float("-inf")  # when Ctrl-C last met an empty prompt
        self._output = ""  # of the last !command, for the model
        session.conversation.approve = self._approve
        session.conversation.go_on = self._go_on

    async def run(self) -> int:
        task = asyncio.current_task()
        signals: list[int] = []

        def end(number: signal.Signals) -> None:
            signals.append(128 + number)
            if task is not None:
                task.cancel()

        with contextlib.ExitStack() as stack:
            modes = self._front.modes
            # Also between two prompts: a key that is typed there does not show, and means what it means at a prompt.
            stack.enter_context(modes.quiet() if self._front.look.live else modes.lent())
            stack.callback(self._close)
            stack.enter_context(tty.on_signal(signal.SIGTSTP, modes.stop))
            stack.enter_context(tty.on_signal(signal.SIGINT, lambda: None))  # between a prompt and a turn
            for number in (signal.SIGTERM, signal.SIGHUP):
                stack.enter_context(tty.on_signal(number, partial(end, number)))
            try:
                return await self._converse()
            except asyncio.CancelledError:
                if not signals:
                    raise
                return signals[0]
            except StdoutClosed:
                return signals[0] if signals else 141

    async def _go_on(self, sentence: str) -> bool:
        """A limit was met, the model goes round in circles, or the place is too wide: the person decides."""
        question = line((Style.ASK, "? "), f"{escape(sentence, single_line=True)} Continue?  y yes  n no")
        key: str = Key.REDRAW
        while key == Key.REDRAW:
            key = await self._front.key(question, "yn")
        return key == "y"

    def _close(self) -> None:
        with contextlib.suppress(StdoutClosed):  # a terminal that hung up needs nothing put back
            self._front.close()

    async def _converse(self) -> int:
        about = self.session.about()
        self._front.show(view.start_lines(about, self.session.conversation.mode.value, self._front.marks))
        if self.session.doubt and not await self._go_on(self.session.doubt):
            return 0
        if self.session.recalled:
            self._front.show([line(one) for one in escape(self.session.recalled).split("\n")])
        warming = asyncio.ensure_future(self._warm_up())
        self._guide()
        if self.session.first_prompt:
            shown = escape(self.session.first_prompt).replace("\n", "\n  ")
            self._front.show([line((Style.BOLD, "> "), shown)])
            await self._handle(self.session.first_prompt)
        while not self.ledger.leaving:
            text = await self._next_prompt()
            if text.strip():
                await self._handle(text)
        self._farewell()
        await asyncio.wait([warming])
        return 0

    async def _warm_up(self) -> None:
        await asyncio.sleep(SETTLED)
        await asyncio.to_thread(self._load)

    def _load(self) -> None:
        with contextlib.suppress(ImportError):  # whoever needs it says so better
            self.session.warm_up()
            self._front.warm_up()

    async def _next_prompt(self) -> str:
        try:
            return await self._front.read_prompt()
        except EOFError:
            self.ledger.leaving = True
        except tty.Interrupted:
            now = asyncio.get_running_loop().time()
            if now - self._interrupted < LEAVE_SECONDS:
                self.ledger.leaving = True
            else:
                self._say("Press Ctrl-C again to leave.")
            self._interrupted = now
        return ""

    async def _handle(self, text: str) -> None:
        """One thing the person typed. What they must know is said; nothing ends the REPL but leaving."""
        outcome = None
        try:
            if text.startswith("/") and "\n" not in text.strip():
                name, _, argument = text.strip().partition(" ")
                said = await find_command(name).run(self, argument.strip())
                if said:
                    self._front.show([line(one) for one in escape(said).split("\n")])
            elif text.startswith("!"):
                await self._shell(text[1:].strip())
            else:
                outcome = await self._turn(text)
        except GemcodeError as error:
            self._front.show(view.error_lines(error, self._front.marks, verbose=self.session.verbose))
        self._guide(text, outcome)

    def _guide(self, typed: str = "", outcome: Outcome | None = None) -> None:
        if advice := self.session.guide.after(typed, outcome):
            first, *rest = advice.split("\n")
            self._front.show([(), line((Style.BOLD, first)), *map(line, rest)])

    async def _approve(self, request: ApprovalRequest) -> Answer:
        if said := self.session.guide.before_question(request):
            self._say(said)
        return await self._front.approval(request)

    async def _shell(self, command: str) -> None:
        """The person's own command. Its output is theirs, and goes to the model only if they say so."""
        with self._front.modes.lent():
            code, output = await programs.run_shell(command, self.session.environ)
        lines = output.count("\n") + (not output.endswith("\n")) if output else 0
        interrupted = code in (-signal.SIGINT, 128 + signal.SIGINT)
        if interrupted or (output and not output.endswith("\n")):
            self._front.show([()])  # what is said next gets a line of its own
        facts = ["interrupted"] if interrupted else [f"exit code {code}"] if code else []
        if lines:
            self._output = f"Output of `{command}`:\n```\n{output.rstrip()}\n```"
            facts.append(f"{view.plural(lines, 'line')}; write @! in a prompt to send {'it' if lines == 1 else 'them'}")
        if facts:
            self._say(", ".join(facts))

    def _message(self, text: str) -> UserMessage:
        """The prompt with what it mentions. @! is the output of the last !command."""
        asked, count = _output_mention.subn(r"\\@!", text)
        if count and not self._output:
            raise UsageError("@! stands for the output of a command, and there is none yet.", "E.g. !git diff")
        message = self.session.to_message(asked, self._say)
        return replace(message, parts=(*message.parts, Text(f"\n\n{self._output}"))) if count else message

    async def _turn(self, text: str) -> Outcome:
        message = self._message(text)
        front = self._front
        outcome = await run_turn(self.session.conversation, message, front.new_view(), front.watch, front.modes)
        self._account(outcome)
        marks = self._front.marks
        lines = view.changed_lines(outcome, marks, "/undo")
        if outcome.status is Status.INTERRUPTED:
            lines.append(view.cancelled_line(outcome.duration_ms / 1000, outcome, marks))
        elif outcome.status is not Status.WRITE_REFUSED:  # each refusal has its own line already
            lines += view.outcome_lines(outcome, marks, verbose=self.session.verbose)
        if outcome.usage != Usage():  # else nothing is known of it
            model, spent = self.session.about().model, self.session.conversation.spent
            lines.append(view.status_line(outcome, model, spent, terminal_size().columns))
        self._front.show(lines)
        return outcome

    def _account(self, outcome: Outcome) -> None:
        ledger = self.ledger
        ledger.turns += 1
        ledger.files |= {change.path for change in outcome.files_changed}
        ledger.answer = outcome.answer or ledger.answer

    def _farewell(self) -> None:
        about, ledger = self.session.about(), self.ledger
        if not (about.session_id and ledger.turns):
            return
        facts = [f"Session {about.session_id}", view.plural(ledger.turns, "turn")]
        if ledger.files:
            facts.append(f"{view.plural(len(ledger.files), 'file')} changed")
        if (spent := self.session.conversation.spent) is not None:
            facts.append(view.money(spent))
        told, command = f"{', '.join(facts)}.", f"Continue: gemcode chat --resume {about.session_id}"
        if len(told) + len(command) + 3 > terminal_size().columns:  # the command stays in one row, to be copied
            self._front.show([view.notice_line(Notice(told), self._front.marks), line(f"  {command}")])
        else:
            self._say(f"{told} {command}")

    async def ask_line(self, question: str) -> str:
        *above, last = question.split("\n")
        self._front.show([line(one) for one in above])
        try:
            return (await self._front.read_line(line((Style.ASK, last)))).strip()
        except (EOFError, tty.Interrupted):
            return ""

    def copy_through_terminal(self, text: str) -> bool:
        return self._front.copy_through_terminal(text)

    async def run_work(self, doing: str, work: Callable[[], Awaitable[str]]) -> str | None:
        front = self._front
        turn_view = front.new_view()
        turn_view.busy(doing)
        return await run_cancellable(work, turn_view, front.watch, front.modes)

    def _say(self, text: str) -> None:
        self._front.show([view.notice_line(Notice(text), self._front.marks)])


def open_approval(
    environ: Mapping[str, str],
    encoding: str | None,
    *,
    no_color: bool = False,
    pause: Callable[[], None] = lambda: None,
) -> Approval:
    """Somebody who asks at the terminal without a REPL around. `pause` takes away what moves on the screen."""
    look, modes, editor = _surroundings(environ, encoding, no_color=no_color)
    if not look.live:
        front = LinearFront(modes, look, editor)
        front.pause = pause
        return front.approval
    from gemcode.terminal.questions import LiveInterviewer  # prompt_toolkit is loaded only where it is used

    return Approval(LiveInterviewer(look, modes, pause=pause), editor)


def open_front(session: ReplSession, encoding: str | None) -> Front:
    """The front that this terminal can carry."""
    look, modes, editor = _surroundings(session.environ, encoding, no_color=session.no_color)
    if not look.live:
        return LinearFront(modes, look, editor)
    from gemcode.terminal.front import LiveFront  # prompt_toolkit is loaded only where it is used

    return LiveFront(session, look, editor, modes)


def _surroundings(
    environ: Mapping[str, str], encoding: str | None, *, no_color: bool
) -> tuple[Look, tty.Modes, Editor]:
    modes = tty.Modes(tty.input_descriptor())
    terminal = tty.is_terminal(1) and tty.is_terminal(modes.descriptor)
    look = choose_look(environ, terminal=terminal, encoding=encoding, size=terminal_size(), no_color=no_color)

    async def editor(name: str, data: bytes) -> bytes:
        with modes.lent():
            return await programs.edit(name, data, environ)

    return look, modes, editor
