"""The `gemcode` command. Answers --version without loading anything, and keeps the project out of the import path."""

import os
import sys


def main() -> None:
    _leave_the_project()
    _end_at_once_on_interrupt()
    _end(_run(sys.argv[1:]))


def _run(arguments: list[str]) -> int:
    if arguments in (["--version"], ["-V"]):
        from gemcode.running import exit_code, say_version

        return exit_code(lambda: say_version)
    import gc  # only now, as all imports here: the project is out of the import path

    gc.disable()  # what is loaded stays, so looking for garbage meanwhile is vain; a command turns it on again
    from gemcode.hardening import harden

    harden()
    if not arguments or " " in arguments[0]:  # a sentence is no command: it is the first that chat is told
        arguments = ["chat", *arguments]
    command, *words = arguments
    plain = command in ("ask", "chat") and not any(word.startswith("-") for word in words)
    # Without flags there is nothing that typer, a good part of a start, could do, but for completion.
    if plain and "_GEMCODE_COMPLETE" not in os.environ:
        from gemcode.running import run_plain

        return run_plain(command, words)
    from gemcode.cli import run

    return run(arguments)


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


def _end(code: int) -> None:
    """Leave without taking the interpreter apart, which takes longer than all the rest. Every file is closed by now."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # nobody reads it, or it was never open
            code = code or 1
    os._exit(code)


if __name__ == "__main__":
    main()
