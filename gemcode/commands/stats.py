"""`gemcode stats` and `gemcode replay`: what past sessions add up to, and one of them shown again. Nothing is run."""

import json
import os
import sys
from pathlib import Path

from gemcode import app, stats
from gemcode.agent.errors import UsageError
from gemcode.agent.replay import replay
from gemcode.stats_page import as_html
from gemcode.terminal.look import choose_look, terminal_size
from gemcode.terminal.plainview import PlainView
from gemcode.terminal.safe import escape, write_stdout
from gemcode.terminal.tty import is_terminal


def run(options: app.Options, html: Path | None, *, as_json: bool) -> int:
    with app.open_project(app.load_settings(options), app.new_session_id()) as project:
        found = stats.collect(project.sessions.read_all())
    if html is not None:
        return _write_page(html, as_html(found))
    if as_json:
        write_stdout(json.dumps(stats.as_json(found), indent=2) + "\n")
        return 0
    if not found.sessions:
        write_stdout("No sessions in this project yet.\n")
        return 0
    write_stdout(stats.aligned(stats.DAY_HEADINGS, stats.day_rows(found.days)))
    write_stdout("\n" + stats.aligned(stats.TOOL_HEADINGS, stats.tool_rows(found.tools)))
    return 0


def show_again(options: app.Options, session: str) -> int:
    """A past session, turn by turn and tool by tool, as it was seen then."""
    look = choose_look(
        os.environ,
        terminal=is_terminal(1),
        encoding=sys.stdout.encoding,
        size=terminal_size(),
        no_color=options.no_color,
    )
    with app.open_project(app.load_settings(options), app.new_session_id()) as project:
        lines = project.sessions.read(session)
    for turn in replay(line.entry for line in lines):
        write_stdout("> " + escape(turn.prompt.text).replace("\n", "\n  ") + "\n")
        view = PlainView(write_stdout, write_stdout, look, lambda: terminal_size().columns)
        for event in turn.events:
            view(event)
        view.close()
        if turn.outcome.error is not None:
            write_stdout(f"✗ {escape(turn.outcome.error.message)}\n")
    return 0


def _write_page(path: Path, page: str) -> int:
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(page)
    except FileExistsError:
        raise UsageError(f"{path} exists already.", "Name a new file for --html.") from None
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}.", "Name another file for --html.") from None
    write_stdout(f"Written: {path}\n")
    return 0
