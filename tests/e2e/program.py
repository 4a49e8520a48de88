"""The real program in a process of its own, against the simulator over real HTTP. Times are hang guards only.

What must hold for every run is checked here, for all tests: no traceback, no key on any stream or in any file that
the program left, and no request that the real service would refuse (unless the test is about one).
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from gemcode.simulator.reply import Brain, RecordedRequest
from gemcode.simulator.scenario import Scenario
from gemcode.simulator.server import Simulator, Violation, running_simulator
from gemcode.simulator.service import Settings
from tests.terminal.pty_screen import PtyScreen

KEY = "AIzaSy-e2e-0123456789-not-a-real-key-WXYZ"
MODEL = "gemini-3.8-flash"
STRICT = Settings(valid_keys=frozenset({KEY}), strict_ids=True)
PATIENCE = 60.0  # seconds until a run counts as hanging
CLOSED = -100  # a standard stream that is not there at all
COMMAND = (sys.executable, "-m", "gemcode")

JsonObject = dict[str, Any]
Source = Brain | Scenario | Mapping[str, Any] | Sequence[Mapping[str, Any]]


def call(name: str, **args: Any) -> JsonObject:
    """One call in a reply of a scenario."""
    return {"name": name, "args": args}


def calls(*wanted: JsonObject, **more: Any) -> JsonObject:
    """A reply that calls tools."""
    return {"calls": list(wanted), **more}


def says(*texts: str, **more: Any) -> JsonObject:
    """A reply that is a text."""
    return {"text": list(texts), **more}


@dataclass(frozen=True)
class Result:
    """A run that has ended."""

    code: int
    stdout: str
    stderr: str
    requests: tuple[RecordedRequest, ...] = ()
    violations: tuple[Violation, ...] = ()

    @property
    def json(self) -> JsonObject:
        """The one object on stdout."""
        assert self.stdout.count("\n") == 1, self.stdout
        value: JsonObject = json.loads(self.stdout)
        return value

    @property
    def events(self) -> list[JsonObject]:
        """The lines of stream-json."""
        return [json.loads(line) for line in self.stdout.splitlines()]

    def results(self, number: int) -> list[JsonObject]:
        """The tool results that request `number` (from 1) carried: id, name, response."""
        return self.requests[number - 1].results


class Running:
    """A run under way."""

    def __init__(self, child: "subprocess.Popen[bytes]", place: "Place", simulator: Simulator) -> None:
        self.child = child
        self.simulator = simulator
        self._place = place

    def wait_until(self, ready: Callable[[], bool], what: str = "") -> None:
        end = time.monotonic() + PATIENCE
        while not ready():
            assert self.child.poll() is None or ready(), f"the program ended before: {what}\n{self._rest()}"
            assert time.monotonic() < end, f"it never came to: {what}"
            time.sleep(0.005)

    def wait_for_request(self, number: int = 1) -> RecordedRequest:
        self.wait_until(lambda: len(self.simulator.requests) >= number, f"request {number}")
        return self.simulator.requests[number - 1]

    def wait_for_stderr(self, text: str) -> None:
        """Wait until stderr holds the text. It goes to a file, so that it can be looked at while the program runs."""
        self.wait_until(lambda: text in self._place.errors.read_text(errors="replace"), f"{text!r} on stderr")

    def interrupt(self, patience: float = PATIENCE) -> Result:
        self.child.send_signal(signal.SIGINT)
        return self.finish(patience=patience)

    def finish(self, *, may_violate: bool = False, patience: float = PATIENCE) -> Result:
        output, _ = self.child.communicate(timeout=patience)
        sim = self.simulator
        result = Result(
            self.child.returncode,
            (output or b"").decode(),
            self._place.errors.read_text(),
            tuple(sim.requests),
            tuple(sim.violations),
        )
        self._place.check(result, may_violate=may_violate)
        return result

    def _rest(self) -> str:
        output, _ = self.child.communicate(timeout=PATIENCE)
        return f"{(output or b'').decode()}\n{self._place.errors.read_text()}"


@dataclass(frozen=True)
class Place:
    """A project and a home of its own, in a temporary directory."""

    base: Path

    @property
    def project(self) -> Path:
        return self.base / "project"

    @property
    def home(self) -> Path:
        return self.base / "home"

    @property
    def errors(self) -> Path:
        return self.base / "stderr.txt"

    def write(self, path: str, content: str | bytes) -> Path:
        target = self.project / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    def files(self) -> dict[str, bytes]:
        """Every regular file of the project, to see that nothing else came or went."""
        found = (path for path in sorted(self.project.rglob("*")) if path.is_file() and not path.is_symlink())
        return {str(path.relative_to(self.project)): path.read_bytes() for path in found}

    def settings(self, text: str) -> Path:
        """The user's own configuration."""
        path = self.home / "config" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)
        return path

    def environment(self, url: str, changes: Mapping[str, str | None] | None = None) -> dict[str, str]:
        """Nothing of the machine's own but the path; None takes a variable away."""
        values: dict[str, str | None] = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": str(self.base),
            "GEMCODE_HOME": str(self.home),
            "GEMINI_API_KEY": KEY,
            "GOOGLE_GEMINI_BASE_URL": url,
            **{name: value for name, value in os.environ.items() if name.startswith("COVERAGE")},
            **(changes or {}),
        }
        return {name: value for name, value in values.items() if value is not None}

    def run(
        self,
        *arguments: str,
        replies: Source = (),
        stdin: bytes | int = subprocess.DEVNULL,
        env: Mapping[str, str | None] | None = None,
        may_violate: bool = False,
        **more: Any,
    ) -> Result:
        """Run to the end. `stdin`: bytes to pipe in, a descriptor, DEVNULL or CLOSED."""
        piped = isinstance(stdin, bytes)
        with self.started(
            *arguments, replies=replies, stdin=subprocess.PIPE if piped else stdin, env=env, **more
        ) as it:
            if piped:
                assert it.child.stdin is not None
                it.child.stdin.write(stdin)
                it.child.stdin.close()
                it.child.stdin = None
            return it.finish(may_violate=may_violate)

    def ask(self, *arguments: str, **more: Any) -> Result:
        return self.run("ask", *arguments, **more)

    @contextmanager
    def started(
        self,
        *arguments: str,
        replies: Source = (),
        settings: Settings = STRICT,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        env: Mapping[str, str | None] | None = None,
        cwd: Path | None = None,
        command: Sequence[str] = COMMAND,
    ) -> Iterator[Running]:
        """A run to watch. The simulator runs as long as the block does; the program is ended with it."""
        with running_simulator(scenario(replies), settings) as simulator, self.errors.open("wb") as errors:
            child = _start(
                [*command, *arguments],
                (stdin, stdout, errors),
                cwd or self.project,
                self.environment(simulator.url, env),
            )
            try:
                yield Running(child, self, simulator)
            finally:
                if child.poll() is None:
                    child.kill()
                for stream in (child.stdin, child.stdout):
                    if stream is not None:
                        stream.close()
                child.wait()

    @contextmanager
    def terminal(
        self,
        *arguments: str,
        replies: Source = (),
        env: Mapping[str, str | None] | None = None,
        size: tuple[int, int] = (100, 40),
    ) -> Iterator[tuple[PtyScreen, Simulator]]:
        """The program on a pseudo-terminal of so many columns and rows."""
        with running_simulator(scenario(replies), STRICT) as simulator:
            environment = self.environment(simulator.url, {"TERM": "xterm-256color", **(env or {})})
            command = [*COMMAND, *arguments, "-C", str(self.project)]
            with PtyScreen(command, *size, environ=environment) as screen:
                yield screen, simulator
            shown = Result(0, "", screen.raw.decode(errors="replace"), (), tuple(simulator.violations))
            self.check(shown, may_violate=False)

    def check(self, result: Result, *, may_violate: bool) -> None:
        """What holds for every run."""
        for stream in (result.stdout, result.stderr):
            assert "Traceback" not in stream, stream
            assert "unexpected error" not in stream, stream
            assert KEY not in stream, "the key is shown"
        if not may_violate:
            assert [(each.http_code, each.message) for each in result.violations] == []
        for path in self.home.rglob("*"):
            if path.is_file() and path.name != "config.toml":
                assert KEY.encode() not in path.read_bytes(), f"the key is in {path}"


def press(screen: PtyScreen, question: str, key: str) -> None:
    """Answer a question. It does not listen in its first moment, so that type-ahead never answers it."""
    screen.wait_for(question)
    time.sleep(0.6)
    screen.type(key)


def scenario(replies: Source) -> Brain | Scenario | Mapping[str, Any]:
    return {"schema": 1, "replies": list(replies)} if isinstance(replies, Sequence) else replies


def _start(
    command: Sequence[str], streams: tuple[int, int, IO[bytes]], cwd: Path, environment: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    stdin, stdout, stderr = streams
    missing = [number for number, stream in enumerate((stdin, stdout)) if stream == CLOSED]

    def close_missing() -> None:
        for number in missing:
            os.close(number)

    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL if stdin == CLOSED else stdin,
        stdout=subprocess.DEVNULL if stdout == CLOSED else stdout,
        stderr=stderr,
        cwd=cwd,
        env=dict(environment),
        preexec_fn=close_missing if missing else None,
    )
