"""Runs one command and says what it came to: the one place where errors become a sentence and an exit code."""

import contextlib
import gc
import importlib
import signal
from collections.abc import Callable, Iterator

from gemcode.agent.errors import ExitCode, GemcodeError
from gemcode.terminal.safe import StdoutClosed, escape, write_stderr


def exit_code(command: Callable[[], int]) -> int:
    """Run it. Everything it needs is loaded by now, so garbage is looked for again, but not among that."""
    gc.freeze()
    gc.enable()
    try:
        with _interruptible():
            return command()
    except GemcodeError as error:
        tell(error)
        return int(error.exit_code)
    except StdoutClosed:
        return int(ExitCode.STDOUT_CLOSED)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)


def run_plain(command: str, words: list[str]) -> int:
    """ask or chat with nothing but words."""
    start: Callable[[list[str]], int] = importlib.import_module(f"gemcode.commands.{command}").start
    return exit_code(lambda: start(words))


def tell(error: GemcodeError) -> None:
    write_stderr(f"✗ {escape(error.message)}\n" + (f"  {escape(error.hint)}\n" if error.hint else ""))


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt in a command, and only there."""
    outside = signal.getsignal(signal.SIGINT)
    if outside is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, outside)
