"""`gemcode chat`: the conversation on the terminal. It puts the REPL together; what happens in it is in terminal/."""

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import replace

from gemcode import app
from gemcode.agent.errors import UsageError
from gemcode.agent.loop import Agent
from gemcode.agent.messages import UserMessage
from gemcode.agent.policy import Mode
from gemcode.agent.tool import decline_unasked
from gemcode.commands import doctor, journal
from gemcode.config import Settings, require_key
from gemcode.gemini import catalog
from gemcode.terminal.repl import Repl, open_front
from gemcode.terminal.safe import write_stderr
from gemcode.terminal.session import ReplSession, Services
from gemcode.terminal.tty import input_descriptor, is_terminal
from gemcode.terminal.view import About
from gemcode.tools import mentions
from gemcode.workspace.listing import walk_files

MOST_COMPLETIONS = 100_000


def run(options: app.Options, first_prompt: str) -> int:
    settings = app.load_settings(options)
    require_key(settings)
    return converse(settings, options, first_prompt)


def converse(settings: Settings, options: app.Options, first_prompt: str = "") -> int:
    """The REPL in an open project. The exit code is its own."""
    with app.open_project(settings, app.new_session_id()) as project:
        model = app.make_model(project.settings, write_stderr if options.verbose else None)
        interactive = is_terminal(input_descriptor())
        mode = settings.approve or (Mode.ASK if interactive else Mode.NONE)
        agent = app.make_agent(project, model, decline_unasked, mode)
        desk = _Desk(project, agent)
        session = ReplSession(
            conversation=agent,
            services=desk.services(),
            about=desk.about,
            to_message=desk.to_message,
            files=desk.files,
            history_file=project.store.directory / "prompts",
            environ=os.environ,
            warm_up=app.preload,
            first_prompt=first_prompt,
            no_color=options.no_color,
            verbose=options.verbose,
        )
        front = open_front(session, sys.stdout.encoding if sys.stdout else None)
        return asyncio.run(Repl(session, front).run())


class _Desk:
    """What the slash commands do, on one project and one conversation."""

    def __init__(self, project: app.Project, agent: Agent) -> None:
        self._project = project
        self._agent = agent
        self._start = {record.id for record in project.store.history()}

    def services(self) -> Services:
        return Services(
            models=self._models,
            use_model=self._use_model,
            tools=self._tools,
            diff=self._diff,
            undo=lambda argument: journal.undo_now(self._project.bench, argument),
            history=lambda argument: journal.history_text(self._project.bench, argument).rstrip("\n"),
            limit_cost=self._limit_cost,
            context=self._context,
            compact=self._compact,
            clear=self._clear,
            sessions=self._sessions,
            resume=self._resume,
            save=self._save,
            doctor=lambda: doctor.report(list(doctor.examine(self._project.settings))).rstrip("\n"),
        )

    def about(self) -> About:
        settings = replace(self._project.settings, model=self._agent.persona.model)
        return app.about(settings, self._project.session_id, self._project.notices)

    def to_message(self, text: str) -> UserMessage:
        return mentions.expand(text, self._project.bench)

    def files(self) -> Sequence[str]:
        bench = self._project.bench
        found = walk_files(bench.root, limits=bench.listing_limits())
        return [entry.path for entry, _ in zip(found, range(MOST_COMPLETIONS), strict=False)]

    def _models(self) -> Sequence[tuple[str, str]]:
        return [(model.name, model.note or "") for model in catalog.MODELS]

    def _use_model(self, name: str) -> str:
        info = catalog.find(name)
        if info is None:
            close = catalog.closest(name)
            raise UsageError(f"{name} is not a known model.", f"Did you mean {close[0]}?" if close else "See: /model")
        self._agent.persona = app.persona(self._project, info.name)
        return info.name

    def _tools(self) -> Sequence[tuple[str, str]]:
        declared = self._project.registry.declarations(self._agent.mode)
        return [(declaration.name, declaration.description) for declaration in declared]

    def _limit_cost(self, limit: float) -> str:
        self._agent.limits = replace(self._agent.limits, cost_usd=limit)
        return f"The limit of a turn is ${limit:.2f} now."
