"""The person's own programs: shell commands, the editor, the clipboard. The only place that starts a process.

Nothing the model says ever gets here but as bytes in a file or on stdin.
"""

import asyncio
import os
import shlex
import signal
import tempfile
from collections.abc import Mapping
from pathlib import Path

from gemcode.agent.errors import UsageError
from gemcode.agent.redaction import KEY_VARIABLES
from gemcode.terminal.tty import on_signal

CLIPBOARDS = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
    ("", ("pbcopy",)),
    ("", ("clip.exe",)),
)


async def run_shell(command: str, environ: Mapping[str, str]) -> int:
    """The person's command in their shell, on their terminal; its exit code. Ctrl-C is the command's."""
    return await _run([environ.get("SHELL") or "/bin/sh", "-c", command])


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


async def _run(command: list[str], hint: str = "") -> int:
    with on_signal(signal.SIGINT, lambda: None):
        try:
            process = await asyncio.create_subprocess_exec(*command, env=_environment())
        except OSError as error:
            raise UsageError(f"{command[0]} could not be started: {error.strerror}.", hint) from None
        return await process.wait()


def _environment() -> dict[str, str]:
    """The person's own, without the API key: no other program needs it."""
    return {name: value for name, value in os.environ.items() if name not in KEY_VARIABLES}
