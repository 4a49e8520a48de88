"""What the process does for itself before anything else: it leaves no core file, lets no debugger of the same account
look in, and shows no stack when something unexpected happens. It must not change the umask: new files of the project
follow the user's own."""

import os
import resource
import sys
from types import TracebackType

from gemcode.agent.redaction import KEY_VARIABLES, redact

_PR_SET_DUMPABLE = 4
_LONGEST_MESSAGE = 200


def harden() -> None:
    """Once, at start. Nothing here may fail: each step is worth having without the others."""
    _leave_no_core()
    _refuse_debuggers()
    sys.excepthook = report


def report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """One sentence and a hint for what nobody expected; with --verbose the stack, never the variables in it."""
    if issubclass(kind, KeyboardInterrupt):
        return
    from gemcode.terminal.safe import escape, write_stderr

    if {"-v", "--verbose"}.intersection(sys.argv[1:]):
        import traceback

        write_stderr(escape(_without_keys("".join(traceback.format_exception(kind, error, trace)))))
    words = " ".join(_without_keys(str(error)).split())[:_LONGEST_MESSAGE]
    said = escape(f"{kind.__name__}: {words}" if words else kind.__name__, single_line=True)
    write_stderr(f"✗ gemcode met an unexpected error ({said}). Run it with --verbose for details.\n")


def _without_keys(text: str) -> str:
    return redact(text, *(os.environ.get(name, "").strip() for name in KEY_VARIABLES))


def _leave_no_core() -> None:
    """A core file would hold the API key. Only the soft limit: a program that the user starts may raise it again."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


def _refuse_debuggers() -> None:
    """Other processes of the account can't read our memory or environment any more. It ends with exec, so no child is
    affected. Linux only."""
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
