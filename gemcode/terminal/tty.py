"""The modes of the controlling terminal and the signals of the process: set for a while, always put back."""

import asyncio
import contextlib
import os
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from typing import Any


class Interrupted(Exception):
    """Ctrl-C at a prompt. Not KeyboardInterrupt, which would end the event loop instead of the prompt."""


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


class Modes:
    """The modes of the terminal that keys come from: the person's own, and ours while gemcode has it."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._own = _modes(descriptor)

    def quiet(self) -> contextlib.AbstractContextManager[None]:
        """What is typed does not show, and waits as it was typed: Enter does not become a newline.

        Signals stay on, so Ctrl-C and Ctrl-Z work.
        """
        if self._own is None:
            return contextlib.nullcontext()
        modes = [*self._own[:6], list(self._own[6])]
        modes[0] &= ~termios.ICRNL
        modes[3] &= ~(termios.ECHO | termios.ICANON)
        return self._set(modes)

    def lent(self) -> contextlib.AbstractContextManager[None]:
        """The person's own modes: for their programs, their shell, or a line that the terminal lets them edit."""
        return self._set(self._own)

    @contextlib.contextmanager
    def _set(self, modes: list[Any] | None) -> Iterator[None]:
        """These modes for a while; then those from before, whatever happens in between."""
        before = _modes(self.descriptor)
        _set(self.descriptor, modes)
        try:
            yield
        finally:
            _set(self.descriptor, before)

    def stop(self) -> None:
        """Stop as the shell expects it, and come back with the modes from before."""
        with self.lent():
            os.kill(os.getpid(), signal.SIGSTOP)


class EscapeWatch:
    """Calls back when Esc is pressed alone while nobody else reads keys. All other keys are thrown away."""

    WAIT = 0.05  # seconds in which the rest of an arrow key would have come

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._pressed: Callable[[], object] | None = None
        self._pending: asyncio.TimerHandle | None = None

    @contextlib.contextmanager
    def watching(self, pressed: Callable[[], object]) -> Iterator[None]:
        self._pressed = pressed
        self._attach()
        try:
            yield
        finally:
            self._detach()
            self._pressed = None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """While a question reads the keys."""
        self._detach()
        try:
            yield
        finally:
            if self._pressed is not None:
                self._attach()

    def _attach(self) -> None:
        if is_terminal(self._descriptor):
            asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    def _detach(self) -> None:
        self._forget()
        if is_terminal(self._descriptor):
            asyncio.get_running_loop().remove_reader(self._descriptor)

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, 1024)
        except OSError:
            data = b""
        self._forget()
        if not data:  # the terminal went away; SIGHUP follows
            self._detach()
        elif data == b"\x1b" and self._pressed is not None:
            self._pending = asyncio.get_running_loop().call_later(self.WAIT, self._pressed)

    def _forget(self) -> None:
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None


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


@contextlib.contextmanager
def default_action(number: signal.Signals) -> Iterator[None]:
    """Inside on_signal: let the signal do at once what it does by default, for a while."""
    stack = _handlers.get(number, [])
    if stack:
        asyncio.get_running_loop().remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        if stack:
            asyncio.get_running_loop().add_signal_handler(number, stack[-1])


def _modes(descriptor: int) -> list[Any] | None:
    try:
        return termios.tcgetattr(descriptor)
    except (termios.error, OSError, ValueError):
        return None


def _set(descriptor: int, modes: list[Any] | None) -> None:
    if modes is not None:
        with contextlib.suppress(termios.error, OSError):
            termios.tcsetattr(descriptor, termios.TCSADRAIN, modes)
