"""Makes docs/screens/*.svg from the real program on an emulated terminal, with the simulator behind it.

Run it from the project's root: .venv/bin/python -m docs.make_screens. Times, ids and ports are made equal, so that two
runs give the same files; a test makes them again and compares.
"""

import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from gemcode.commands.demo import SHARED_FILE, THEIR_LINE, fixture
from gemcode.simulator.reply import Pause, RecordedRequest, Reply, Text
from gemcode.simulator.server import running_simulator
from gemcode.simulator.tour import Tour
from tests.terminal.pty_screen import ENTER, PtyScreen

SCREENS = Path(__file__).parent / "screens"
CELL, ROW, MARGIN, BAR = 8.4, 18, 14, 30
PALETTE = {
    "default": "#d4d4d4", "dim": "#8a8a8a", "black": "#1e1e1e", "red": "#f48771", "green": "#89d185",
    "brown": "#e2c08d", "blue": "#6cb6ff", "magenta": "#d2a8ff", "cyan": "#56d4dd", "white": "#ffffff",
}  # fmt: skip
# What differs from run to run, and what stands for it. Nothing changes its length, so the columns stay.
VARYING = (
    (r"\d+(?= ms\b)", lambda found: "1".rjust(len(found[0]))),
    (r"(?<=127\.0\.0\.1:)\d{5}", lambda _: "40123"),
    (r"(?<=kept as )\w{4}|(?<=restore )\w{4}|(?<=undo of )\w{4}", lambda _: "k3f9"),
    (r"(?<=now )\w{4}(?=\))", lambda _: "p7wd"),
    (r"\d\d:\d\d:\d\d", lambda _: "14:02:11"),
    ("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", lambda _: "⠙"),
    (r"(?<=  )\d(?=s(?:$|   Ctrl-C))", lambda _: "1"),
)  # fmt: skip


class Unhurried(Tour):
    """The demo's brain, which stops in the middle of an explanation."""

    def answer(self, request: RecordedRequest) -> Reply:
        reply = super().answer(request)
        halfway = "Why" in str(request.contents[0]) and len(reply.steps) > 1
        if not halfway:
            return reply
        return Reply(steps=(*reply.steps[:2], Text("Three lines of 0.335 give 1.02 ins"), Pause(600), Text("tead.")))


@contextmanager
def chat(size: tuple[int, int] = (80, 24)) -> Iterator[tuple[PtyScreen, Path]]:
    """`gemcode` in a fresh copy of the demo's project."""
    with tempfile.TemporaryDirectory() as home, running_simulator(Unhurried()) as simulator:
        project = Path(home) / "shop"
        for path in sorted(fixture("shop").rglob("*")):
            target = project / path.relative_to(fixture("shop"))
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.is_file() and path.suffix != ".pyc":
                target.write_bytes(path.read_bytes())
        (project / ".git").mkdir()
        (project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        environment = {
            "HOME": home,
            "GEMINI_API_KEY": "simulated-key-x4f2",
            "GOOGLE_GEMINI_BASE_URL": simulator.url,
            "TZ": "UTC",
            "PATH": os.environ["PATH"],
        }
        command = [sys.executable, "-m", "gemcode", "chat", "-C", str(project)]
        with PtyScreen(command, *size, environ=environment) as screen:
            screen.wait_for("^>")
            yield screen, project


def ask(screen: PtyScreen, prompt: str) -> None:
    screen.wait_until(lambda: screen.visible()[-1] == ">", what="prompt")
    screen.type(prompt + ENTER)


def answer(screen: PtyScreen, key: str, beginning: str = "Write") -> None:
    screen.wait_until(lambda: screen.visible()[-1].startswith(beginning), what="question")
    time.sleep(0.5)
    screen.type(key)


def start() -> str:
    with chat() as (screen, _):
        return draw(screen)


def streaming() -> str:
    with chat() as (screen, _):
        ask(screen, "Why is the total of a cart wrong?")
        screen.wait_for("give 1.02 ins")
        time.sleep(0.3)
        return draw(screen)


def confirm(size: tuple[int, int] = (80, 24)) -> str:
    with chat(size) as (screen, _):
        ask(screen, "Fix the rounding in the cart.")
        screen.wait_for("^Write")
        time.sleep(0.3)
        return draw(screen)


def narrow() -> str:
    return confirm((40, 15))


def hunks() -> str:
    with chat((80, 32)) as (screen, _):
        ask(screen, "Tidy up the prices.")
        answer(screen, "h")
        answer(screen, "y", "Hunk 1 of 3")
        screen.wait_for("^Hunk 2 of 3")
        time.sleep(0.3)
        return draw(screen)


def conflict() -> str:
    with chat((80, 32)) as (screen, project):
        ask(screen, "Fix the rounding in the cart.")
        screen.wait_for("^Write")
        with (project / SHARED_FILE).open("ab") as file:
            file.write(THEIR_LINE)
        answer(screen, "y")
        answer(screen, "m", "  m show both")
        screen.wait_until(lambda: screen.text().count("  m show both") == 2, what="the question again")
        time.sleep(0.3)
        return draw(screen)


def undo() -> str:
    with chat() as (screen, _):
        ask(screen, "Fix the rounding in the cart.")
        answer(screen, "y")
        ask(screen, "/undo")
        screen.wait_for("Undo this")
        screen.wait_until(lambda: screen.visible()[-1] == ">", what="prompt")
        return draw(screen)


ALL: dict[str, Callable[[], str]] = {
    "start": start,
    "streaming": streaming,
    "confirm": confirm,
    "narrow": narrow,
    "hunks": hunks,
    "conflict": conflict,
    "undo": undo,
}


def draw(screen: PtyScreen) -> str:
    """The screen as SVG, as many rows as are used."""
    cells, (column, row) = screen.picture()
    while len(cells) > row + 1 and not "".join(cell.data for cell in cells[-1]).strip():
        cells.pop()
    width = 2 * MARGIN + CELL * len(cells[0])
    height = BAR + ROW * len(cells) + MARGIN
    left, top = MARGIN + CELL * column, BAR + ROW * row + 3
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}">',
            "<style>text{font:14px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}",
            *(f".{name}{{fill:{colour}}}" for name, colour in PALETTE.items()),
            ".bold{font-weight:700}.italic{font-style:italic}</style>",
            f'<rect width="100%" height="100%" rx="8" fill="{PALETTE["black"]}"/>',
            *(f'<circle cx="{16 * n + MARGIN - 8}" cy="14" r="5" fill="#4a4a4a"/>' for n in (1, 2, 3)),
            f'<rect x="{left:g}" y="{top:g}" width="{CELL:g}" height="{ROW - 2}" fill="#6a6a6a"/>',
            *(line for number, one in enumerate(cells) if (line := draw_row(one, BAR + ROW * number + 15))),
            "</svg>\n",
        ]
    )


def draw_row(cells: list[Any], baseline: int) -> str:
    text = "".join(cell.data or " " for cell in cells)
    for pattern, value in VARYING:
        text = re.sub(pattern, value, text)
    spans = []
    for style, run in groupby(range(len(cells)), lambda x: style_of(cells[x])):
        columns = list(run)
        shown = text[columns[0] : columns[-1] + 1].rstrip()
        word = shown.lstrip()
        if word:
            x, length = MARGIN + CELL * (columns[0] + len(shown) - len(word)), CELL * len(word)
            place = f'x="{x:g}" textLength="{length:g}" class="{style}"'
            spans.append(f"<tspan {place}>{escape(word, quote=False)}</tspan>")
    return f'<text y="{baseline}" xml:space="preserve">{"".join(spans)}</text>' if spans else ""


def style_of(cell: Any) -> str:
    known = cell.fg.removeprefix("bright")
    names = [known if known in PALETTE else "default", *(["bold"] * cell.bold), *(["italic"] * cell.italics)]
    return " ".join(names)


def main() -> None:
    SCREENS.mkdir(exist_ok=True)
    for name, make in ALL.items():
        (SCREENS / f"{name}.svg").write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
