"""The `gemcode` command. Answers --version without loading anything, and keeps the project out of the import path."""

import os
import sys

from gemcode import __version__


def main() -> None:
    _leave_the_project()
    _end_at_once_on_interrupt()
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        from gemcode.terminal.safe import write_stdout

        write_stdout(f"gemcode {__version__}\n")
        sys.exit(0)
    from gemcode.cli import run

    run(arguments)


def _leave_the_project() -> None:
    """A project's json.py is never imported in place of the real one, whatever PYTHONPATH or -m put in the path."""
    doubtful = {"", os.curdir, *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    doubtful |= {os.path.abspath(entry) for entry in doubtful} - {here}
    sys.path[:] = [entry for entry in sys.path if entry not in doubtful]


def _end_at_once_on_interrupt() -> None:
    """While the program loads there is nothing to clean up and nothing to tell. A command handles Ctrl-C itself."""
    import signal  # only now: the project is out of the import path

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # and not ignored, as for a background job
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))


if __name__ == "__main__":
    main()
