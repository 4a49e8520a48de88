"""`gemcode demo`: the same assistant on a scratch copy of a small project, against the built-in simulator."""

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from gemcode import app
from gemcode.agent.errors import GemcodeError, UsageError
from gemcode.agent.events import Notice, Outcome
from gemcode.agent.policy import Mode
from gemcode.agent.tool import Answer, ApprovalRequest, FileChange
from gemcode.commands import chat, journal
from gemcode.config import Secret, Settings
from gemcode.frozen import frozen
from gemcode.simulator import tour
from gemcode.simulator.server import Simulator, running_simulator
from gemcode.terminal.approval import Approval
from gemcode.terminal.look import Look, Size, choose_look, terminal_size
from gemcode.terminal.paint import Line, Style, line, paint, paint_all
from gemcode.terminal.plainview import PlainView
from gemcode.terminal.safe import write_stdout
from gemcode.terminal.session import Guide
from gemcode.terminal.tty import input_descriptor, is_terminal
from gemcode.terminal.view import marks_for, notice_line
from gemcode.tools import mentions

INTRODUCTION = """\
gemcode demo: a copy of a small project, a built-in simulator, no network.
No model is behind it: the answers are scripted, tools and HTTP are real.
"""
SHARED_FILE = "shop/cart.py"  # which a colleague saves at a bad moment
THEIR_LINE = b"# Mia: the prices come from the till, see #12\n"


def _called(name: str, subject: str) -> Callable[[Outcome], bool]:
    return lambda outcome: any((call.name, call.subject, call.ok) == (name, subject, True) for call in outcome.calls)


def _failed(*kinds: str) -> Callable[[Outcome], bool]:
    return lambda outcome: any(call.kind in kinds for call in outcome.calls)


@frozen
class Stop:
    """One stop of the tour: what it shows, what is typed, what the person answers, and what then has happened."""

    title: str
    typed: str
    done: Callable[[Outcome], bool] = lambda _: False
    answers: tuple[str, ...] = ()
    colleague: bool = False  # saves SHARED_FILE while the question is open


STOPS = (
    Stop("the model lists the project through a tool.", "What is in this project?", _called("list_files", ".")),
    Stop(
        "it reads a file before it talks about it.",
        "Why is the total of a cart wrong?",
        _called("read_file", SHARED_FILE),
    ),
    Stop(
        "a write is shown before it happens. Press n, and say why.",
        "Fix the rounding in the cart.",
        _failed("denied"),
        ("n", "the prices first"),
    ),
    Stop(
        "a change may have several hunks. Press h, take some, then y.",
        "Tidy up the prices.",
        lambda outcome: any(change.path == "shop/prices.py" for change in outcome.files_changed),
        ("h", "y", "n", "y", "y"),
    ),
    Stop("every write can be taken back, with or without git.", "/undo"),
    Stop(
        "a colleague saves the file while you are asked. Press y, m, r, y.",
        "Fix the rounding in the cart.",
        _failed("stale", "conflict", "denied"),
        ("y", "m", "r", "y"),
        colleague=True,
    ),
    Stop(
        "a path that leads out of the project is refused.", "Read ../../etc/passwd for me.", _failed("outside_project")
    ),
    Stop(
        "escape sequences in a file are shown, never obeyed.",
        "Show me notes/colours.txt.",
        _called("read_file", "notes/colours.txt"),
    ),
)


class TourGuide(Guide):
    """Announces one stop after the other, and is the colleague who saves a file at a bad moment."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._index = 0
        self._saved = False

    def stop(self) -> Stop | None:
        return STOPS[self._index] if self._index < len(STOPS) else None

    def announce(self, stop: Stop) -> str:
        return f"Step {self._index + 1} of {len(STOPS)}: {stop.title}"

    def after(self, typed: str, outcome: Outcome | None) -> str:
        """The next step, or the same again after a turn that was about something else."""
        stop = self.stop()
        if stop is None or (typed.startswith(("/", "!")) and typed != stop.typed):
            return ""
        if typed in (stop.typed, "next") or outcome is not None:
            self._index += typed == "next" or (stop.done(outcome) if outcome else typed == stop.typed)
        following = self.stop()
        if following is None:
            return "That was the tour. Go on as you like; /quit leaves. With a key: gemcode chat"
        return f"{self.announce(following)}\n  type: {following.typed}"

    def before_question(self, request: ApprovalRequest) -> str:
        change = request.preview
        stop = self.stop()
        if self._saved or stop is None or not stop.colleague or not isinstance(change, FileChange):
            return ""
        self._saved = True
        with (self._project / SHARED_FILE).open("ab") as file:
            file.write(THEIR_LINE)
        return f"At this moment a colleague saves {SHARED_FILE} (it is the demo that does it)."


def run(*, play: bool, no_color: bool) -> int:
    unattended = play or not (is_terminal(1) and is_terminal(input_descriptor()))
    with scratch_project() as (settings, simulator):
        guide = TourGuide(settings.project)
        if not unattended:
            write_stdout(INTRODUCTION + "The cost shown is an example: nothing is billed.\n")
            write_stdout("Each step says what to type; next skips one, /quit leaves.\n")
            return chat.converse(settings, app.Options(no_color=no_color), guide=guide)
        look = choose_look(
            os.environ,
            terminal=is_terminal(1),
            encoding=sys.stdout.encoding,
            size=terminal_size(),
            no_color=no_color,
        )
        asyncio.run(_play(settings, look, guide))
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


async def _play(settings: Settings, look: Look, guide: TourGuide) -> None:
    """The whole tour unattended: the same turns, the same questions, answered from a list."""
    person = _ScriptedPerson(look)
    approval = Approval(person, _no_editor)

    async def approve(request: ApprovalRequest) -> Answer:
        if said := guide.before_question(request):
            person.show([notice_line(Notice(said), person.marks)])
        return await approval(request)

    with app.open_project(settings, app.new_session_id()) as project:
        agent = app.make_agent(project, app.make_model(app.gemini_settings(settings)), approve, Mode.ASK)
        write_stdout(INTRODUCTION)
        while stop := guide.stop():
            write_stdout(paint_all([(), line((Style.BOLD, guide.announce(stop)))], look))
            write_stdout(paint(line((Style.BOLD, "> "), stop.typed), look) + "\n")
            person.answers = list(stop.answers)
            outcome = None
            if stop.typed == "/undo":
                write_stdout(journal.undo_now(project, "") + "\n")
            else:
                view = PlainView(write_stdout, write_stdout, look, lambda: terminal_size().columns)
                outcome = await agent.run(mentions.expand(stop.typed, project.bench), view)
                view.close()
            guide.after(stop.typed, outcome)
            if guide.stop() is stop:
                said = outcome.error.message if outcome and outcome.error else "nothing"
                raise GemcodeError(f"The demo did not come to what it shows: {stop.title} It said: {said}")


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
        write_stdout(f"{paint(question, self._look).rstrip()} {answer}\n")
        return answer


async def _no_editor(_: str, data: bytes) -> bytes:
    return data
