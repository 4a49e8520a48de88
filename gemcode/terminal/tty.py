"""The modes of the controlling terminal and the signals of the process: set for a while, always put back."""

import asyncio
import contextlib
import os
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from typing import Any

SHOW_CURSOR = "\x1b[?25h"


def is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def input_descriptor() -> int:
    """Where keys come from; -1 when there is no stdin at all."""
    try:
        return sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):
        return -1


@contextlib.contextmanager
def kept_modes(descriptor: int) -> Iterator[None]:
    """Put the terminal's modes back at the end, whatever happens in between."""
    saved = _modes(descriptor)
    try:
        yield
    finally:
        _set(descriptor, saved)


@contextlib.contextmanager
def quiet(descriptor: int) -> Iterator[Callable[[], None]]:
    """While a turn runs: what is typed does not show and does not wait for the next question. Signals stay on.

    Gives a function that sets the quiet modes again, for the way back from a suspend.
    """
    saved = _modes(descriptor)

    def silence() -> None:
        if saved is not None:
            modes = [*saved[:6], list(saved[6])]
            modes[3] &= ~(termios.ECHO | termios.ICANON)
            _set(descriptor, modes)

    silence()
    try:
        yield silence
    finally:
        flush_input(descriptor)
        _set(descriptor, saved)


def flush_input(descriptor: int) -> None:
    """Throw away what was typed and not yet read."""
    with contextlib.suppress(termios.error, OSError, ValueError):
        termios.tcflush(descriptor, termios.TCIFLUSH)


# The dispositions of a process are global, so is this record of them: asyncio forgets a handler that another replaced.
_handlers: dict[signal.Signals, list[Callable[[], object]]] = {}


@contextlib.contextmanager
def on_signal(number: signal.Signals, handler: Callable[[], object]) -> Iterator[None]:
    """Handle a signal in the event loop for a while; then the handler from before is back. May be nested."""
    loop = asyncio.get_running_loop()
    stack = _handlers.setdefault(number, [])
    stack.append(handler)
    before = signal.getsignal(number)
    loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        stack.pop()
        if stack:
            loop.add_signal_handler(number, stack[-1])
        else:
            loop.remove_signal_handler(number)
            signal.signal(number, before)


def _modes(descriptor: int) -> list[Any] | None:
    try:
        return termios.tcgetattr(descriptor)
    except (termios.error, OSError, ValueError):
        return None


def _set(descriptor: int, modes: list[Any] | None) -> None:
    if modes is not None:
        with contextlib.suppress(termios.error, OSError):
            termios.tcsetattr(descriptor, termios.TCSADRAIN, modes)
