"""Runs one turn on a terminal: quiet input, Ctrl-C cancels at once, Ctrl-Z suspends, the view ticks."""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from gemcode.agent.events import Event, Outcome, TurnFinished
from gemcode.agent.messages import UserMessage
from gemcode.terminal.safe import StdoutClosed
from gemcode.terminal.session import Conversation
from gemcode.terminal.tty import EscapeWatch, Modes, flush_input, on_signal

T = TypeVar("T")


class TurnView(Protocol):
    """A sink for one turn's events that may also move while nothing happens."""

    @property
    def interval(self) -> float: ...

    def __call__(self, event: Event) -> None: ...

    def busy(self, doing: str) -> None: ...

    def tick(self) -> None: ...

    def pause(self) -> None: ...

    def close(self) -> None: ...


async def run_turn(
    conversation: Conversation, message: UserMessage, turn_view: TurnView, watch: EscapeWatch, modes: Modes
) -> Outcome:
    """The outcome, also of a turn that was cancelled. Raises CancelledError only when the whole REPL is ending."""
    ended: list[Outcome] = []

    def emit(event: Event) -> None:
        if isinstance(event, TurnFinished):
            ended.append(event.outcome)
        else:
            turn_view(event)

    result = await run_cancellable(lambda: conversation.run(message, emit), turn_view, watch, modes)
    return result if result is not None else ended[-1]


async def run_cancellable(
    work: Callable[[], Awaitable[T]], turn_view: TurnView, watch: EscapeWatch, modes: Modes
) -> T | None:
    """Run something that Ctrl-C or Esc may end; None when it did."""
    task = asyncio.ensure_future(work())
    with contextlib.ExitStack() as stack:
        stack.enter_context(modes.quiet())
        stack.callback(flush_input, modes.descriptor)  # what was typed does not wait for the next question
        stack.enter_context(watch.watching(task.cancel))
        stack.enter_context(on_signal(signal.SIGINT, task.cancel))
        stack.enter_context(on_signal(signal.SIGTSTP, lambda: _suspend(turn_view, modes)))
        ticker = asyncio.ensure_future(_tick(turn_view))
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                await asyncio.wait([task])
                raise
            return None
        finally:
            ticker.cancel()
            turn_view.close()


async def _tick(turn_view: TurnView) -> None:
    with contextlib.suppress(StdoutClosed):  # the next event meets it too, and ends the turn
        while True:
            await asyncio.sleep(turn_view.interval)
            turn_view.tick()


def _suspend(turn_view: TurnView, modes: Modes) -> None:
    turn_view.pause()
    flush_input(modes.descriptor)
    modes.stop()
