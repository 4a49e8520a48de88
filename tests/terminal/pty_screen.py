"""A program on a pseudo-terminal, seen through a terminal emulator: what a person sees and types."""

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyte

ENTER = "\r"
CTRL_C = "\x03"
CTRL_D = "\x04"
CTRL_Z = "\x1a"
ESCAPE = "\x1b"


class _Screen(pyte.HistoryScreen):
    answer: Callable[[bytes], None] = lambda data: None

    def write_process_input(self, data: str) -> None:
        type(self).answer(data.encode())

    def select_graphic_rendition(self, *attrs: int, **more: bool) -> None:
        super().select_graphic_rendition(*attrs, **more)
        if attrs == (2,):  # the emulator knows no dim
            self.cursor.attrs = self.cursor.attrs._replace(fg="dim")


class PtyScreen:
    """Runs a command on a terminal of a given size. Times are hang guards, never assertions."""

    def __init__(
        self, command: Sequence[str], columns: int = 80, rows: int = 24, environ: Mapping[str, str] | None = None
    ) -> None:
        self.master, slave = os.openpty()
        self._size(columns, rows)
        self.modes_before = termios.tcgetattr(slave)
        self.slave = slave
        self.raw = b""
        self._stop = False
        self._lock = threading.Lock()
        kind = type("Screen", (_Screen,), {"answer": staticmethod(lambda data: os.write(self.master, data))})
        self._screen: Any = kind(columns, rows, history=10_000, ratio=0.5)
        self._stream = pyte.ByteStream(self._screen)
        base = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8", "HOME": "/nonexistent"}
        base |= {name: value for name, value in os.environ.items() if name.startswith("COVERAGE")}
        self.child = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env={**base, **(environ or {})},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> "PtyScreen":
        return self

    def __exit__(self, *_: object) -> None:
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
        if self.slave >= 0:
            os.close(self.slave)
        self._reader.join(10)
        if self.master >= 0:
            os.close(self.master)

    def _read(self) -> None:
        master = self.master
        while not self._stop:
            if not select.select([master], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(master, 65536)
            except OSError:
                return
            if not data:
                return
            with self._lock:
                self.raw += data
                self._stream.feed(data)

    def _size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def paste(self, text: str) -> None:
        self.type(f"\x1b[200~{text}\x1b[201~")

    def hang_up(self) -> None:
        """The terminal window is closed."""
        os.close(self.slave)
        self._stop = True
        master, self.master, self.slave = self.master, -1, -1
        self._reader.join(10)
        os.close(master)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.child.pid, number)

    def visible(self) -> list[str]:
        """The rows of the screen without trailing blanks, and without the empty ones at the end."""
        with self._lock:
            rows = [row.rstrip() for row in self._screen.display]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def picture(self) -> tuple[list[list[Any]], tuple[int, int]]:
        """The cells of the screen, and where the cursor is (column, row)."""
        with self._lock:
            screen = self._screen
            cells = [[screen.buffer[y][x] for x in range(screen.columns)] for y in range(screen.lines)]
            return cells, (screen.cursor.x, screen.cursor.y)

    def all(self) -> list[str]:
        """The scrollback and the screen."""
        with self._lock:
            columns = self._screen.columns
            past = ["".join(row[x].data for x in range(columns)).rstrip() for row in self._screen.history.top]
        return past + self.visible()

    def text(self) -> str:
        return "\n".join(self.all())

    def wait_for(self, pattern: str, seconds: float = 30) -> str:
        """Wait until the whole text matches."""
        return self.wait_until(lambda: bool(re.search(pattern, self.text(), re.MULTILINE)), seconds, pattern)

    def wait_until(self, ready: Callable[[], bool], seconds: float = 30, what: str = "") -> str:
        end = time.monotonic() + seconds
        while not ready():
            assert time.monotonic() < end, f"{what!r} did not come:\n{self.text()}"
            time.sleep(0.01)
        return self.text()

    def wait_for_end(self, seconds: float = 30) -> int:
        code = self.child.wait(seconds)
        end = time.monotonic() + 0.2
        while time.monotonic() < end:  # what was written last is on its way
            time.sleep(0.02)
        return code

    def modes_after(self) -> list[Any]:
        return termios.tcgetattr(self.slave)

    def cursor_hidden(self) -> bool:
        return bool(self._screen.cursor.hidden)
