"""`gemcode chat`: the conversation on the terminal. It puts the REPL together; what happens in it is in terminal/."""

import asyncio
import os
import sys
from dataclasses import replace

from gemcode import app
from gemcode.agent.policy import Mode
from gemcode.agent.tool import decline_unasked
from gemcode.commands.desk import Desk
from gemcode.config import Settings, require_key
from gemcode.terminal.repl import Repl, open_front
from gemcode.terminal.safe import write_stderr
from gemcode.terminal.session import Guide, ReplSession
from gemcode.terminal.tty import input_descriptor, is_terminal
from gemcode.workspace.root import is_root_or_home


def start(words: list[str]) -> int:
    """`gemcode chat` without flags."""
    return run(app.Options(), " ".join(words))


def run(options: app.Options, first_prompt: str) -> int:
    settings = app.load_settings(options)
    require_key(settings)
    return converse(settings, options, first_prompt)


def converse(settings: Settings, options: app.Options, first_prompt: str = "", guide: Guide | None = None) -> int:
    """The REPL in an open project. The exit code is its own. With a guide it is a demo, which nobody continues."""
    with app.open_project(settings, app.new_session_id()) as project:
        os.chdir(settings.project)  # where !command and /save work
        model = app.make_model(app.gemini_settings(settings, write_stderr if options.verbose else None))
        terminal = is_terminal(input_descriptor())
        mode = settings.approve or (Mode.ASK if terminal else Mode.NONE)
        agent = app.make_agent(project, model, decline_unasked, mode)
        desk = Desk(project, agent, app.open_session(project, options.resume, latest=options.latest))
        session = ReplSession(
            conversation=agent,
            services=desk.services(),
            about=desk.about if guide is None else lambda: replace(desk.about(), session_id=""),
            to_message=desk.to_message,
            files=desk.files,
            history_file=project.store.directory / "prompts",
            environ=os.environ,
            warm_up=lambda: app.preload(project),
            recalled=desk.recalled(),
            doubt="The model may list and read all of it." if terminal and is_root_or_home(project.root) else "",
            first_prompt=first_prompt,
            no_color=options.no_color,
            verbose=options.verbose,
            guide=guide or Guide(),
        )
        try:
            front = open_front(session, sys.stdout.encoding if sys.stdout else None)
            return asyncio.run(Repl(session, front).run())
        finally:
            desk.close()
