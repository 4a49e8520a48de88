"""The person's own programs: shell commands, the editor, the clipboard. The only place that starts a process.

Nothing the model says ever gets here but as bytes in a file or on stdin.
"""

import asyncio
import os
import re
import shlex
import signal
import tempfile
import termios
from collections.abc import Mapping
from pathlib import Path

from gemcode.agent.errors import GemcodeError, UsageError
from gemcode.agent.redaction import KEY_VARIABLES
from gemcode.terminal.safe import pass_through
from gemcode.terminal.tty import is_terminal, on_signal

KEPT_BYTES = 64 * 1024  # of what a command printed
LINGER = 0.5  # seconds for the last of it
_sequence = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
CLIPBOARDS = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
    ("", ("pbcopy",)),
    ("", ("clip.exe",)),
)


async def run_shell(command: str, environ: Mapping[str, str]) -> tuple[int, str]:
    """The person's command in their shell; its exit code and the end of what it printed. Ctrl-C is the command's.

    It sees a terminal where we have one, so that pagers, editors and colours work.
    """
    theirs, ours = _output_pair()
    kept = bytearray()
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def take() -> None:
        try:
            data = os.read(ours, 65536)
        except OSError:  # a pseudo-terminal that nobody has open any more
            data = b""
        if ended.done():
            return
        if not data:
            ended.set_result(None)
            return
        kept.extend(data)
        del kept[:-KEPT_BYTES]
        try:
            pass_through(data)
        except GemcodeError as error:
            ended.set_exception(error)

    loop.add_reader(ours, take)
    try:
        try:
            code = await _run([environ.get("SHELL") or "/bin/sh", "-c", command], output=theirs)
        finally:
            os.close(theirs)
        await asyncio.wait([ended], timeout=LINGER)  # a child in the background may keep it open for ever
        if ended.done():
            ended.result()
    finally:
        loop.remove_reader(ours)
        os.close(ours)
    return code, _sequence.sub("", kept.decode("utf-8", "replace")).replace("\r\n", "\n")


def _output_pair() -> tuple[int, int]:
    """Where a command writes to, and where we read it."""
    if not is_terminal(1):
        ours, theirs = os.pipe()
        return theirs, ours
    ours, theirs = os.openpty()
    modes = termios.tcgetattr(theirs)
    modes[1] &= ~termios.OPOST  # the real terminal does that
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    termios.tcsetwinsize(theirs, termios.tcgetwinsize(1))
    return theirs, ours


async def edit(name: str, data: bytes, environ: Mapping[str, str]) -> bytes:
    """Let the person change the bytes in their editor. The file has the name's ending, for the editor's colours."""
    editor = shlex.split(environ.get("VISUAL") or environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="gemcode-") as directory:
        safe_name = "".join(letter for letter in os.path.basename(name) if letter.isalnum() or letter in "._-")
        path = Path(directory) / f"proposal-{safe_name}"
        path.write_bytes(data)
        code = await _run([*editor, str(path)], "Set EDITOR to one that is installed.")
        if code:
            raise UsageError(f"The editor ended with code {code}.", "Nothing was taken over.")
        return path.read_bytes()


async def copy(text: str, environ: Mapping[str, str]) -> str:
    """Put the text on the clipboard; the name of the program that did it, "" where there is none."""
    for variable, program in CLIPBOARDS:
        if variable and not environ.get(variable):
            continue
        try:
            process = await asyncio.create_subprocess_exec(
                *program,
                env=_environment(),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
        except OSError:
            continue
        await process.communicate(text.encode("utf-8", "replace"))
        if process.returncode == 0:
            return program[0]
    return ""


async def _run(command: list[str], hint: str = "", output: int | None = None) -> int:
    with on_signal(signal.SIGINT, lambda: None):
        try:
            process = await asyncio.create_subprocess_exec(*command, env=_environment(), stdout=output, stderr=output)
        except OSError as error:
            raise UsageError(f"{command[0]} could not be started: {error.strerror}.", hint) from None
        return await process.wait()


def _environment() -> dict[str, str]:
    """The person's own, without the API key: no other program needs it."""
    return {name: value for name, value in os.environ.items() if name not in KEY_VARIABLES}
