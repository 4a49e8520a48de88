"""What the REPL is given by the composition root: the conversation, and the functions behind the slash commands."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Protocol

from gemcode.agent.events import Outcome, Sink
from gemcode.agent.messages import Message, UserMessage
from gemcode.agent.policy import Mode
from gemcode.agent.tool import ApprovalRequest, Approver
from gemcode.frozen import frozen
from gemcode.terminal.view import About


class Conversation(Protocol):
    """The agent, as the REPL sees it."""

    mode: Mode
    history: list[Message]
    approve: Approver
    spent: float | None  # USD since the program was started; None: the price of a model is not known
    go_on: Callable[[str], Awaitable[bool]]  # asked with a sentence before a limit stops a turn

    async def run(self, prompt: UserMessage, emit: Sink) -> Outcome: ...


@frozen
class SavedSession:
    """One row of /resume."""

    id: str
    when: str
    title: str
    turns: int
    files: int
    cost_usd: float | None = None
    model: str = ""


@frozen
class Services:
    """What the slash commands need from other rooms. Each gives text for the person, or raises GemcodeError.

    Those that take a string get what was typed behind the command, "" for nothing. They run in a thread, but for those
    that are awaited: `restore`, which asks, and `compact`, which may be cancelled.
    """

    models: Callable[[], Sequence[tuple[str, str]]]  # name, description
    use_model: Callable[[str], str]  # switches; gives the full name
    tools: Callable[[], Sequence[tuple[str, str]]]
    tool_stats: Callable[[], str]
    diff: Callable[[str], str]
    undo: Callable[[str], str]
    restore: Callable[[str], Awaitable[str]]  # shows the change and asks
    history: Callable[[str], str]
    limit_cost: Callable[[float], str]
    context: Callable[[], str]
    compact: Callable[[str], Awaitable[str]]
    clear: Callable[[], str]
    sessions: Callable[[], Sequence[SavedSession]]
    resume: Callable[[str], str]
    save: Callable[[str], str]
    doctor: Callable[[], str]


class Guide:
    """Somebody who looks over the person's shoulder and says what to try. This one is silent."""

    def after(self, typed: str, outcome: Outcome | None) -> str:
        """Called before each prompt with what was typed last ("" at the start) and the turn's outcome, if any."""
        return ""

    def before_question(self, request: ApprovalRequest) -> str:
        return ""


@frozen
class ReplSession:
    """Everything the REPL works on. `about` is asked anew each time: model and session id may change.

    `to_message` resolves @mentions: it tells of each, or raises UsageError before anything is sent.
    """

    conversation: Conversation
    services: Services
    about: Callable[[], About]
    to_message: Callable[[str, Callable[[str], None]], UserMessage]
    files: Callable[[], Sequence[str]] = tuple  # project paths for completion, ignored ones left out
    history_file: Path | None = None  # of this project; None keeps the history in memory
    environ: Mapping[str, str] = field(default_factory=dict)
    warm_up: Callable[[], None] = lambda: None  # slow imports, run in a thread behind the first prompt
    recalled: str = ""  # where a conversation that goes on had come to
    doubt: str = ""  # said before the first prompt, with the question whether to go on
    first_prompt: str = ""
    no_color: bool = False
    verbose: bool = False
    guide: Guide = Guide()
