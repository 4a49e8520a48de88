"""One-shot output: text, json and stream-json. Stdout carries only the answer; all else goes to stderr. Never asks.

Imports neither rich nor prompt_toolkit before text streams to a terminal.
"""

import contextlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, assert_never

from gemcode.agent.events import (
    Event,
    Notice,
    Outcome,
    Sink,
    Status,
    StepFinished,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from gemcode.agent.messages import Usage
from gemcode.agent.model import Retrying, TextDelta, ThoughtDelta
from gemcode.terminal import view
from gemcode.terminal.look import Look, terminal_size
from gemcode.terminal.paint import Line, paint_all
from gemcode.terminal.plainview import PlainView
from gemcode.terminal.safe import StdoutClosed, escape, write_stderr, write_stdout
from gemcode.terminal.view import About

if TYPE_CHECKING:
    from gemcode.terminal.turn import TurnView

SCHEMA = 1


class OutputFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    STREAM_JSON = "stream-json"


class Reporter(Protocol):
    """A sink that also has an end: `finish` prints the outcome once, whether or not a request was ever made."""

    def __call__(self, event: Event) -> None: ...

    def tick(self) -> None:
        """Called ten times a second while the turn runs."""
        ...

    def pause(self) -> None:
        """Called before a question."""
        ...

    def finish(self, outcome: Outcome) -> None: ...


def result_object(outcome: Outcome, session_id: str, model: str) -> dict[str, object]:
    """The json output: every key for every outcome, `error` only where there is one."""
    result: dict[str, object] = {
        "schema": SCHEMA,
        "session_id": session_id,
        "model": model,
        "status": outcome.status.value,
        "answer": outcome.answer,
        "finish_reason": outcome.finish_reason,
        "usage": usage_object(outcome.usage),
        "cost_usd": outcome.cost_usd,
        "steps": outcome.steps,
        "tool_calls": [
            {"name": call.name, "args": call.args, "ok": call.ok, "duration_ms": round(call.duration_ms, 3)}
            | ({} if call.ok else {"error": call.error})
            for call in outcome.calls
        ],
        "files_changed": [
            {"path": change.path, "action": change.action, "backup_id": change.backup_id}
            for change in outcome.files_changed
        ],
        "duration_ms": round(outcome.duration_ms, 3),
    }
    if outcome.error is not None:
        result["error"] = {"message": outcome.error.message, "hint": outcome.error.hint}
    return result


def usage_object(usage: Usage) -> dict[str, int]:
    return {
        "prompt_tokens": usage.prompt,
        "cached_tokens": usage.cached,
        "output_tokens": usage.output,
        "thought_tokens": usage.thought,
        "total_tokens": usage.total,
    }


def one_line_json(value: object) -> str:
    """JSON on one line, readable, with nothing in it that a terminal or an encoder could stumble over."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


class JsonReporter:
    """Exactly one object on stdout, at the end."""

    def __init__(self, about: About) -> None:
        self._about = about
        self._done = False

    def __call__(self, event: Event) -> None:
        if isinstance(event, StepStarted):
            self._about = replace(self._about, model=event.model)  # another one may stand in
        elif isinstance(event, TurnFinished):
            self.finish(event.outcome)

    def tick(self) -> None:
        """Nothing moves."""

    pause = tick

    def finish(self, outcome: Outcome) -> None:
        if not self._done:
            self._done = True
            write_stdout(one_line_json(result_object(outcome, self._about.session_id, self._about.model)) + "\n")


class StreamJsonReporter:
    """One event a line; the last one is the result."""

    def __init__(self, about: About) -> None:
        self._about = about
        self._begun = False
        self._done = False

    def __call__(self, event: Event) -> None:
        match event:
            case TextDelta():
                self._say("text", text=event.text)
            case ThoughtDelta():
                self._say("thought", text=event.text)
            case Retrying():
                self._say(
                    "retry", reason=event.reason, delay=event.delay, attempt=event.attempt, attempts=event.attempts
                )
            case StepStarted():
                self._about = replace(self._about, model=event.model)
                self._begin()
            case StepFinished():
                self._say(
                    "usage",
                    step=event.step,
                    final=event.final,
                    finish_reason=event.finish.reason,
                    **usage_object(event.usage),
                )
            case ToolStarted():
                self._say(
                    "tool_call", id=event.call.id, name=event.call.name, args=event.call.args, subject=event.subject
                )
            case ToolFinished():
                self._say(
                    "tool_result",
                    id=event.call.id,
                    name=event.call.name,
                    ok=event.result.ok,
                    duration_ms=round(event.duration_ms, 3),
                    **event.result.response,
                )
            case Notice():
                self._say("notice", text=event.text, warning=event.warning)
            case TurnFinished():
                self.finish(event.outcome)
            case _:
                assert_never(event)

    def tick(self) -> None:
        """Nothing moves."""

    pause = tick

    def finish(self, outcome: Outcome) -> None:
        if not self._done:
            self._done = True
            self._say("result", **result_object(outcome, self._about.session_id, self._about.model))

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._say("init", schema=SCHEMA, session_id=self._about.session_id, model=self._about.model)

    def _say(self, kind: str, **fields: object) -> None:
        self._begin()
        write_stdout(one_line_json({"type": kind} | fields) + "\n")


class TextReporter:
    """The answer to stdout: as it comes on a terminal, whole and verbatim into a pipe. The rest to stderr."""

    def __init__(self, about: About, out: Look, err: Look, *, terminal: bool, verbose: bool) -> None:
        self._about = about
        self._err = err
        self._marks = view.marks_for(unicode=err.unicode)
        self._terminal = terminal
        self._verbose = verbose
        self._view = (
            self._live_view(out) if terminal and out.live else PlainView(write_stdout, write_stderr, err, _columns)
        )
        self._done = False

    def _live_view(self, out: Look) -> "TurnView":
        from gemcode.terminal.live import LiveView, Region  # only where it is used: start-up is measured

        return LiveView(Region(write_stdout, terminal_size), self._tell, out, terminal_size)

    def __call__(self, event: Event) -> None:
        match event:
            case TurnFinished():
                self.finish(event.outcome)
            case StepStarted():
                self._about = replace(self._about, model=event.model)
                self._view(event)
            case ThoughtDelta():
                if self._verbose:
                    write_stderr(escape(event.text))
            case TextDelta() if not self._terminal:
                pass  # it may be void yet, or not the answer
            case StepFinished() if not self._terminal:
                if not event.final and event.text.strip():
                    write_stderr(_ended(escape(event.text)))
            case _:
                self._view(event)

    def tick(self) -> None:
        if self._terminal:
            self._view.tick()

    def pause(self) -> None:
        self._view.pause()

    def finish(self, outcome: Outcome) -> None:
        if self._done:
            return
        self._done = True
        self._view.close()
        if outcome.answer and not self._terminal:
            write_stdout(_ended(outcome.answer))
        told = int(outcome.status is Status.WRITE_REFUSED)  # the error names the first
        lines = view.changed_lines(outcome, self._marks, "gemcode undo", told=told)
        lines += view.outcome_lines(outcome, self._marks, verbose=self._verbose)
        if outcome.usage != Usage():  # else nothing is known of it
            lines.append(view.status_line(outcome, self._about.model, None, _columns()))
        self._tell(lines)

    def _tell(self, lines: list[Line]) -> None:
        write_stderr(paint_all(lines, self._err))


def open_reporter(
    output_format: OutputFormat,
    about: About,
    err: Look,
    *,
    terminal: bool,
    verbose: bool = False,
    out: Look = Look(),
) -> Reporter:
    """The reporter for a format. `err` is the look of stderr; `terminal`: stdout is one, with the look `out`."""
    if output_format is OutputFormat.JSON:
        return JsonReporter(about)
    if output_format is OutputFormat.STREAM_JSON:
        return StreamJsonReporter(about)
    return TextReporter(about, out, err, terminal=terminal, verbose=verbose)


async def run_once(work: Callable[[Sink], Awaitable[Outcome]], reporter: Reporter) -> Outcome:
    """One turn without a REPL, reported. SIGINT, SIGTERM and SIGHUP cancel it; the outcome then says so."""
    import asyncio  # here and below: the command line imports this module for its names alone
    import signal

    from gemcode.terminal.tty import on_signal

    ended: list[Outcome] = []

    def emit(event: Event) -> None:
        if isinstance(event, TurnFinished):
            ended.append(event.outcome)
        reporter(event)

    task = asyncio.ensure_future(work(emit))
    ticker = asyncio.ensure_future(_tick(reporter))
    with contextlib.ExitStack() as stack:
        stack.enter_context(on_signal(signal.SIGINT, task.cancel))
        stack.enter_context(on_signal(signal.SIGTERM, task.cancel))
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
            stack.enter_context(on_signal(signal.SIGHUP, task.cancel))
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if (current is not None and current.cancelling()) or not ended:
                raise
            return ended[-1]
        finally:
            ticker.cancel()


async def _tick(reporter: Reporter) -> None:
    import asyncio

    with contextlib.suppress(StdoutClosed):  # the next event meets it too, and ends the turn
        while True:
            await asyncio.sleep(0.1)
            reporter.tick()


def _columns() -> int:
    return terminal_size(2).columns


def _ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"
