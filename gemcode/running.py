"""Runs one command and says what it came to: the one place where errors become a sentence and an exit code."""

import contextlib
import gc
import importlib
import signal
from collections.abc import Callable, Iterator
from functools import partial

from gemcode import __version__
from gemcode.agent.errors import ExitCode, GemcodeError
from gemcode.terminal.safe import StdoutClosed, escape, write_stderr, write_stdout

Command = Callable[[], int]
_COLLECT_AFTER = 20_000  # new objects; with the usual 700 a start looks a dozen times among what it has just loaded


def exit_code(load: Callable[[], Command]) -> int:
    """Load a command and run it. What is loaded stays, so only then garbage is looked for, and not among that."""
    try:
        command = load()
        gc.freeze()
        gc.set_threshold(_COLLECT_AFTER)
        gc.enable()
        with _interruptible():
            return command()
    except GemcodeError as error:
        _tell(error)
        return int(error.exit_code)
    except StdoutClosed:
        return int(ExitCode.STDOUT_CLOSED)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)


def run_plain(command: str, words: list[str]) -> int:
    """ask or chat with nothing but words."""

    def load() -> Command:
        return partial(importlib.import_module(f"gemcode.commands.{command}").start, words)

    return exit_code(load)


def say_version() -> int:
    """The version, and nothing loaded for it."""
    write_stdout(f"gemcode {__version__}\n")
    return 0


def _tell(error: GemcodeError) -> None:
    write_stderr(f"✗ {escape(error.message)}\n" + (f"  {escape(error.hint)}\n" if error.hint else ""))


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP raise KeyboardInterrupt in a command, and only there, so that it ends in order; one
    that is ignored stays ignored."""
    outside = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for number, handler in outside.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in outside.items():
            signal.signal(number, handler)
