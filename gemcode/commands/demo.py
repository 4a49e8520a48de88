"""`gemcode demo`: the same assistant on a scratch copy of a small project, against the built-in simulator."""

import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from gemcode import app
from gemcode.agent.errors import GemcodeError, UsageError
from gemcode.agent.events import Status
from gemcode.agent.policy import Mode
from gemcode.commands import chat
from gemcode.config import Secret, Settings
from gemcode.simulator import tour
from gemcode.simulator.server import Simulator, running_simulator
from gemcode.terminal.approval import Approval
from gemcode.terminal.look import Look, Size, choose_look, terminal_size
from gemcode.terminal.paint import Line, Style, line, paint, paint_all
from gemcode.terminal.plainview import PlainView
from gemcode.terminal.safe import write_stdout
from gemcode.terminal.tty import input_descriptor, is_terminal
from gemcode.terminal.view import marks_for
from gemcode.tools import mentions

INTRODUCTION = """\
gemcode demo: a scratch copy of a small project, a built-in simulator, no network.
No model is behind it: the answers are scripted, the tools and the HTTP are real.
"""


@dataclass(frozen=True, slots=True)
class Stop:
    """One stop of the unattended tour: what is typed, what the person answers, and how the turn must end."""

    title: str
    prompt: str
    answers: tuple[str, ...] = ()
    ends: Status = Status.OK


STOPS = (
    Stop("the model lists the project through a tool", "What is in this project?"),
    Stop("it reads a file before it talks about it", "Why is the total of a cart wrong?"),
    Stop(
        "a write is shown before it happens; here the person says no, with a reason",
        "Fix the rounding in the cart.",
        ("n", "first explain it to me"),
        Status.WRITE_REFUSED,
    ),
    Stop("asked again, and confirmed with y", "Fix the rounding in the cart.", ("y",)),
    Stop("a new file is a write like any other", "Write a CHANGES.md that says so.", ("y",)),
    Stop("a path that leaves the project is refused", "Read ../../etc/passwd for me."),
    Stop("escape sequences in a file are shown, never obeyed", "Show me notes/colours.txt."),
)


def run(*, play: bool, no_color: bool) -> int:
    unattended = play or not (is_terminal(1) and is_terminal(input_descriptor()))
    with scratch_project() as (settings, simulator):
        if not unattended:
            prompts = dict.fromkeys(stop.prompt for stop in STOPS)
            write_stdout(INTRODUCTION + "".join(f"  try: {prompt}\n" for prompt in prompts))
            return chat.converse(settings, app.Options(no_color=no_color))
        look = choose_look(
            os.environ,
            terminal=is_terminal(1),
            encoding=sys.stdout.encoding,
            size=terminal_size(),
            no_color=no_color,
        )
        asyncio.run(_play(settings, look))
        if simulator.violations:
            raise GemcodeError(f"The simulator rejected a request: {simulator.violations[0].message}")
        write_stdout(
            f"\nThat was the tour: {len(simulator.requests)} requests over real HTTP, none rejected. "
            "With a key: gemcode chat\n"
        )
    return 0


@contextmanager
def scratch_project() -> Iterator[tuple[Settings, Simulator]]:
    """A copy of the fixture project with a state directory of its own, and a simulator that knows it."""
    with tempfile.TemporaryDirectory(prefix="gemcode-demo-") as scratch, running_simulator(tour.Tour()) as simulator:
        project = Path(scratch) / "shop"
        _copy(fixture("shop"), project)
        settings = Settings(
            project=project,
            config_home=Path(scratch) / "config",
            state_home=Path(scratch) / "state",
            key=Secret("simulated-key-for-the-demo"),
            key_source="the demo",
            base_url=simulator.url,
            base_url_source="the demo",
        )
        yield settings, simulator


def fixture(name: str) -> Path:
    """A fixture project: inside an installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    for place in (package / "fixtures" / name, package.parent / "sandbox_fixtures" / name):
        if place.is_dir():
            return place
    raise UsageError("The demo's project is missing from this installation.", "Install gemcode again.")


def _copy(source: Path, target: Path) -> None:
    target.mkdir()
    for path in sorted(source.rglob("*")):
        copy = target / path.relative_to(source)
        if path.is_dir():
            copy.mkdir()
        else:
            copy.write_bytes(path.read_bytes())


async def _play(settings: Settings, look: Look) -> None:
    person = _ScriptedPerson(look)
    with app.open_project(settings, app.new_session_id()) as project:
        approval = Approval(person, _no_editor)
        agent = app.make_agent(project, app.make_model(app.gemini_settings(settings)), approval, Mode.ASK)
        write_stdout(INTRODUCTION)
        for number, stop in enumerate(STOPS, 1):
            write_stdout(paint_all([(), line((Style.DIM, f"Step {number} of {len(STOPS)}: {stop.title}"))], look))
            write_stdout(paint(line((Style.BOLD, "> "), stop.prompt), look) + "\n")
            person.answers = list(stop.answers)
            view = PlainView(write_stdout, write_stdout, look, lambda: terminal_size().columns)
            view.declined = approval.declined
            outcome = await agent.run(mentions.expand(stop.prompt, project.bench), view)
            view.close()
            if outcome.status is not stop.ends:
                said = outcome.error.message if outcome.error else outcome.status
                raise GemcodeError(f"Step {number} of the demo ended otherwise than it should: {said}")


class _ScriptedPerson:
    """An Interviewer who answers from a list and says so on the screen."""

    def __init__(self, look: Look) -> None:
        self._look = replace(look, live=False)
        self.marks = marks_for(unicode=look.unicode)
        self.answers: list[str] = []

    def size(self) -> Size:
        return terminal_size()

    def show(self, lines: Sequence[Line]) -> None:
        write_stdout(paint_all(lines, self._look))

    async def key(self, question: Line, letters: str) -> str:
        return self._answer(question)

    async def text(self, question: Line, *, typed: bool = False) -> str:
        return self._answer(question)

    def _answer(self, question: Line) -> str:
        answer = self.answers.pop(0)
        write_stdout(f"{paint(question, self._look)} {answer}\n")
        return answer


async def _no_editor(_: str, data: bytes) -> bytes:
    return data
