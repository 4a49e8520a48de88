"""What the slash commands do, on one open project and one conversation. Each gives a text, or raises GemcodeError."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from gemcode import app
from gemcode.agent.conversation import ConversationState
from gemcode.agent.errors import GemcodeError, ToolError, UsageError
from gemcode.agent.loop import Agent
from gemcode.agent.messages import Message, ModelMessage, ToolMessage, Usage, UserMessage
from gemcode.agent.session import Session
from gemcode.agent.transcript import Committed, encode_entry
from gemcode.commands import doctor, journal
from gemcode.commands.sessions import age
from gemcode.gemini import catalog
from gemcode.terminal.safe import escape
from gemcode.terminal.session import SavedSession, Services
from gemcode.terminal.view import About
from gemcode.workspace.branch import branch_of
from gemcode.workspace.diff import unified
from gemcode.workspace.journal import WriteRecord
from gemcode.workspace.proposal import snapshot

MOST_COMPLETIONS = 100_000


class Desk:
    """The conversation that is open now, and what can be done with it besides talking."""

    def __init__(self, project: app.Project, agent: Agent, session: Session) -> None:
        self._project = project
        self._agent = agent
        self._session = session
        self._branch = branch_of(project.root)
        agent.begin(session.state, session.record)

    def services(self) -> Services:
        return Services(
            models=lambda: [(model.name, model.note) for model in catalog.MODELS],
            use_model=self._use_model,
            tools=self._tools,
            tool_stats=self._tool_stats,
            diff=self._diff,
            undo=lambda argument: journal.undo_now(self._project, argument),
            restore=lambda write: journal.restore_now(self._project, write, self._agent.approve),
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
        return replace(app.about(settings, self._session.id, self._project.notices), branch=self._branch)

    def to_message(self, text: str, told: Callable[[str], None]) -> UserMessage:
        from gemcode.tools import mentions  # with the tools, behind the first prompt

        return mentions.expand(text, self._project.bench, told)

    def files(self) -> Sequence[str]:
        """The project's files, for completion; ignored ones are left out."""
        from gemcode.workspace.listing import walk_files  # with RE2, which the first prompt does not wait for

        bench = self._project.bench
        found = walk_files(bench.root, limits=bench.listing_limits())
        return [entry.path for entry, _ in zip(found, range(MOST_COMPLETIONS), strict=False)]

    def recalled(self) -> str:
        """Where a resumed conversation had come to; nothing of a new one."""
        return resumed_text(self._session) if self._session.state.turns else ""

    def close(self) -> None:
        self._session.close()

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

    def _tool_stats(self) -> str:
        from gemcode.stats import TOOL_HEADINGS, aligned, tool_rows  # seldom asked for

        rows = tool_rows(self._agent.counters.rows())
        return (
            aligned(TOOL_HEADINGS, rows).rstrip("\n")
            if rows
            else "No tool was called since this conversation was opened."
        )

    def _limit_cost(self, limit: float) -> str:
        if self._agent.spent is None or self._agent.persona.price(Usage()) is None:
            raise UsageError("A limit can't be kept: the price of this model is not known.", "See: /model")
        self._agent.limits = replace(self._agent.limits, cost_usd=limit)
        return f"The limit is ${limit:.2f} now, for all turns since gemcode was started."

    def _context(self) -> str:
        report = self._agent.context()
        rows = [f"{name:<24}{tokens:>10,}" for name, tokens in report.rows]
        share = f" of {report.limit:,} ({report.tokens / report.limit:.1%})" if report.limit else ""
        return "\n".join([*rows, f"{'together':<24}{report.tokens:>10,}{share} tokens, estimated"])

    async def _compact(self, argument: str) -> str:
        if argument == "undo":
            return "The full conversation is back." if self._agent.undo_compaction() else "There is nothing to undo."
        return (await self._agent.compact()).sentence()

    def _clear(self) -> str:
        old = self._session.id if self._agent.history else ""
        self._begin(Session(self._project.sessions, app.new_session_id()))
        return "A new conversation begins." + (f" The old one stays: /resume {old}" if old else "")

    def _sessions(self) -> Sequence[SavedSession]:
        return [
            SavedSession(info.id, age(info.updated), info.title, info.turns, info.files, info.cost_usd, info.model)
            for info in self._project.sessions.infos()
            if info.id != self._session.id
        ]

    def _resume(self, wanted: str) -> str:
        session = self._project.sessions.resume(wanted)
        self._begin(session)
        return resumed_text(session)

    def _begin(self, session: Session) -> None:
        self._session.close()
        self._session = session
        self._agent.begin(session.state, session.record)

    def _diff(self, argument: str) -> str:
        """What this session, or its last turn, has changed on disk, as one difference per file."""
        bench = self._project.bench
        turns = {bench.turn} if argument == "turn" else None
        first: dict[str, WriteRecord] = {}
        for record in reversed(bench.store.history()):
            mine = record.session == bench.store.session and (turns is None or record.intent.turn in turns)
            if mine and record.happened and argument in ("", "turn", record.path):
                first.setdefault(record.path, record)
        texts = [_since(self._project, record) for record in first.values()]
        since = "the last turn" if argument == "turn" else "this session"
        return "\n".join(text for text in texts if text) or f"Nothing is different from the start of {since}."

    def _save(self, argument: str) -> str:
        """Write the conversation to a new file: JSON if its name says so, Markdown otherwise."""
        name = argument or f"gemcode-{self._session.id}.md"
        history = self._agent.history
        if not history:
            raise UsageError("There is nothing to save yet.", "Ask something first.")
        text = _as_json(history) if name.endswith(".json") else "\n".join(_as_markdown(self._agent.state))
        try:
            with open(name, "x", encoding="utf-8", errors="replace") as file:
                file.write(text + "\n")
        except FileExistsError:
            raise UsageError(f"{name} exists already.", "Choose another name: /save FILE") from None
        except OSError as error:
            raise GemcodeError(f"{name} can't be written: {error.strerror}.", "Choose another place.") from None
        return f"Saved to {name}."


def resumed_text(session: Session) -> str:
    """The last prompt and answer of a resumed conversation, and how much came before them."""
    state = session.state
    lines = [f"Session {session.id}: {state.title}"]
    if session.forked_from:
        lines.append(f"It is open in another gemcode, so this is a copy of {session.forked_from}.")
    if state.turns > 1:
        lines.append(f"{state.turns - 1} earlier turn{'' if state.turns == 2 else 's'}")
    if state.words:
        lines.append(f"> {state.words[-1]}")
    answers = [message.text for message in state.history if isinstance(message, ModelMessage) and message.text]
    return "\n".join(lines + answers[-1:])


def _since(project: app.Project, record: WriteRecord) -> str:
    """The difference between a file before its first write and now."""
    try:
        before = project.store.read_object(record.intent.old) if record.intent.old else b""
        after = snapshot(project.root, record.path).data or b""
    except ToolError as error:
        return f"{escape(record.path, single_line=True)}: {escape(error.message)}"
    difference = unified(before, after)
    if not difference.hunks:
        return ""
    head = f"{escape(record.path, single_line=True)}  +{difference.added} -{difference.removed}"
    return f"{head}\n{escape(difference.as_text().rstrip())}"


def _as_json(history: Sequence[Message]) -> str:
    return json.dumps([encode_entry(Committed(message)) for message in history], indent=2)


def _as_markdown(state: ConversationState) -> Iterator[str]:
    yield f"# {state.title}\n\nSaved by gemcode on {time.strftime('%Y-%m-%d %H:%M')}.\n"
    for message in state.history:
        match message:
            case UserMessage():
                yield f"## You\n\n{message.text}\n"
            case ModelMessage():
                yield from (f"- `{call.name}` `{json.dumps(call.args)[:200]}`" for call in message.calls)
                if message.text:
                    yield f"\n## gemcode\n\n{message.text}\n"
            case ToolMessage():
                pass
