"""A real terminal program, tmux, with one window in a server of its own. Times are hang guards, never assertions."""

import os
import re
import subprocess
import time
import uuid
from collections.abc import Callable
from pathlib import Path


class Tmux:
    """One window in a tmux server of its own."""

    def __init__(self, command: str) -> None:
        self._server = f"gemcode-test-{uuid.uuid4().hex[:8]}"
        self.run("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", command)
        self.run("set-option", "-g", "history-limit", "10000")
        self.run("set-option", "-g", "window-size", "manual")
        self.run("set-option", "-g", "exit-empty", "off")

    def run(self, *arguments: str, **options: object) -> str:
        environ = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "xterm-256color", "HOME": "/nonexistent"}
        done = subprocess.run(
            ["tmux", "-L", self._server, *arguments], capture_output=True, text=True, timeout=30, env=environ, **options
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def text(self) -> str:
        return self.run("capture-pane", "-p", "-J", "-S", "-", "-t", ":0")

    def flags(self) -> str:
        return self.run("display-message", "-p", "-t", ":0", "#{alternate_on} #{mouse_any_flag}").strip()

    def type(self, *keys: str) -> None:
        self.run("send-keys", "-t", ":0", *keys)

    def resize(self, columns: int, rows: int) -> None:
        self.run("resize-window", "-t", ":0", "-x", str(columns), "-y", str(rows))

    def wait_for(self, pattern: str, seconds: float = 30) -> str:
        return self.wait_until(lambda text: bool(re.search(pattern, text, re.MULTILINE)), seconds)

    def wait_until(self, ready: Callable[[str], bool], seconds: float = 30) -> str:
        end = time.monotonic() + seconds
        while not ready(text := self.text()):
            assert time.monotonic() < end, text
            time.sleep(0.05)
        return text

    def last(self) -> str:
        """The last row with anything on it."""
        return (self.text().rstrip().splitlines() or [""])[-1]

    def lives(self) -> bool:
        return bool(self.run("list-sessions"))

    def program(self) -> int:
        """The process that the shell in the window has started."""
        shell = self.run("display-message", "-p", "-t", ":0", "#{pane_pid}").strip()
        return int(Path(f"/proc/{shell}/task/{shell}/children").read_text().split()[0])

    def close(self) -> None:
        self.run("kill-server")
