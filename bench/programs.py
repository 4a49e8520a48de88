"""Runs the programs that are measured, each in a clean environment, and takes their times, memory and output."""

import fcntl
import os
import pty
import resource
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PYTHON = sys.executable
GEMCODE = str(Path(PYTHON).parent / "gemcode")
BARE = str(Path(__file__).with_name("bare.py"))
PATIENCE = 60.0
CURSOR_QUESTION, CURSOR_ANSWER = b"\x1b[6n", b"\x1b[1;1R"


@dataclass(frozen=True, slots=True)
class Finished:
    """What one run of a program took. Times are of the same clock as the server's."""

    started: float
    ended: float
    cpu: float  # seconds, user and system
    peak_kb: int
    output: bytes
    code: int

    @property
    def wall(self) -> float:
        return self.ended - self.started


class Ground:
    """A scratch project with a state directory of its own, and the environment that points to both."""

    def __init__(self, url: str) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="bench-"))
        self.project = self.home / "project"
        self.project.mkdir()
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "GEMINI_API_KEY": "bench-key-0000",
            "GOOGLE_GEMINI_BASE_URL": url,
            "NO_PROXY": "127.0.0.1",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
        }

    def allow_many_steps(self) -> None:
        config = self.home / "gemcode" / "config"
        config.mkdir(parents=True)
        limits = "".join(f"{name} = 1000\n" for name in ("calls_per_turn", "calls_per_minute"))
        (config / "config.toml").write_text(f"max_steps = 1000\n[limits]\n{limits}", encoding="utf-8")
        self.environment["GEMCODE_HOME"] = str(self.home / "gemcode")

    def remove(self) -> None:
        shutil.rmtree(self.home)


def _peak_kb(usage: resource.struct_rusage) -> int:
    return usage.ru_maxrss // 1024 if sys.platform == "darwin" else usage.ru_maxrss


def run(command: Sequence[str], ground: Ground) -> Finished:
    """Run to the end with stdout in a pipe and nothing on stdin."""
    started = time.perf_counter()
    child = subprocess.Popen(
        command,
        cwd=ground.project,
        env=ground.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert child.stdout is not None
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    ended = time.perf_counter()
    child.returncode = os.waitstatus_to_exitcode(status)
    child.stdout.close()
    return Finished(started, ended, usage.ru_utime + usage.ru_stime, _peak_kb(usage), output, child.returncode)


class Terminal:
    """A program on a pseudo-terminal of 100 by 30 that answers where the cursor is, as real ones do."""

    def __init__(self, command: Sequence[str], ground: Ground) -> None:
        self.output = bytearray()
        self.started = time.perf_counter()
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
            os.chdir(ground.project)
            os.execve(command[0], list(command), ground.environment)

    def write(self, data: bytes) -> float:
        """Type something; when that was."""
        now = time.perf_counter()
        os.write(self._fd, data)
        return now

    def wait_for(self, marker: bytes, begin: int = 0) -> float:
        """Read until the output from `begin` on holds the marker; when that was."""
        while marker not in self.output[begin:]:
            if not self._read(PATIENCE):
                raise RuntimeError(f"no {marker!r} came, but: {bytes(self.output[-2000:])!r}")
        return time.perf_counter()

    def settle(self, seconds: float) -> None:
        """Read for a while."""
        until = time.perf_counter() + seconds
        while (left := until - time.perf_counter()) > 0:
            self._read(left)

    def finish(self) -> Finished:
        """Read to the end, and reap."""
        while self._read(PATIENCE):
            pass
        os.close(self._fd)
        _, status, usage = os.wait4(self.pid, 0)
        ended = time.perf_counter()
        code = os.waitstatus_to_exitcode(status)
        cpu = usage.ru_utime + usage.ru_stime
        return Finished(self.started, ended, cpu, _peak_kb(usage), bytes(self.output), code)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._fd], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # the other side is closed
            return False
        if CURSOR_QUESTION in data:
            os.write(self._fd, CURSOR_ANSWER * data.count(CURSOR_QUESTION))
        self.output += data
        return bool(data)
