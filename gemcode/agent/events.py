"""What happens, told to whoever listens. Events are frozen values; no listener can steer the loop."""

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias

from gemcode.agent.errors import ExitCode, GemcodeError
from gemcode.agent.messages import ToolCall, ToolResult, Usage
from gemcode.agent.model import Finish, Retrying, TextDelta, ThoughtDelta
from gemcode.frozen import frozen


@frozen
class StepStarted:
    """A request goes out to the model."""

    step: int
    model: str


@frozen
class StepFinished:
    """The model's answer is complete. `final`: no call follows, so `text` is the answer."""

    step: int
    text: str
    final: bool
    finish: Finish
    usage: Usage


@frozen
class ToolStarted:
    call: ToolCall
    subject: str  # what it is about, for one line: a path, a pattern


@frozen
class ToolFinished:
    call: ToolCall
    subject: str
    result: ToolResult
    duration_ms: float  # without the time a person took to answer


@frozen
class Notice:
    """One sentence for the person."""

    text: str
    warning: bool = False


class Status(StrEnum):
    """How a turn ended."""

    OK = "ok"
    API_ERROR = "api_error"
    USAGE_ERROR = "usage_error"
    BLOCKED = "blocked"
    INCOMPLETE = "incomplete"
    WRITE_REFUSED = "write_refused"
    QUOTA = "quota"
    INTERRUPTED = "interrupted"

    @property
    def exit_code(self) -> ExitCode:
        return _EXIT_CODES[self]

    @classmethod
    def of_exit_code(cls, code: ExitCode) -> "Status":
        return next((status for status, known in _EXIT_CODES.items() if known is code), cls.API_ERROR)


_EXIT_CODES = {
    Status.OK: ExitCode.OK,
    Status.API_ERROR: ExitCode.API_ERROR,
    Status.USAGE_ERROR: ExitCode.USAGE,
    Status.BLOCKED: ExitCode.BLOCKED,
    Status.INCOMPLETE: ExitCode.INCOMPLETE,
    Status.WRITE_REFUSED: ExitCode.WRITE_REFUSED,
    Status.QUOTA: ExitCode.QUOTA,
    Status.INTERRUPTED: ExitCode.INTERRUPTED,
}


@frozen
class CallRecord:
    """One executed call, as the json output reports it."""

    name: str
    args: dict[str, object]
    ok: bool
    duration_ms: float
    error: str = ""
    kind: str = ""  # of the error: stable, such as denied or conflict; "" for a success
    subject: str = ""  # what it was about: a path, a pattern
    writes: bool = False  # it was meant to change a file


@frozen
class FileChanged:
    """A file on disk is different now."""

    path: str
    action: str  # created, modified, deleted
    backup_id: str
    added: int = 0
    removed: int = 0


@frozen
class Outcome:
    """The whole turn."""

    status: Status
    answer: str = ""
    finish_reason: str = ""
    usage: Usage = Usage()
    cost_usd: float | None = None
    steps: int = 0
    calls: tuple[CallRecord, ...] = ()
    files_changed: tuple[FileChanged, ...] = ()
    duration_ms: float = 0.0
    error: GemcodeError | None = None


@frozen
class TurnFinished:
    outcome: Outcome


Event: TypeAlias = (
    TextDelta
    | ThoughtDelta
    | Retrying
    | StepStarted
    | StepFinished
    | ToolStarted
    | ToolFinished
    | Notice
    | TurnFinished
)
Sink: TypeAlias = Callable[[Event], None]


def tee(*sinks: Sink) -> Sink:
    """One sink that tells several, in order."""

    def emit(event: Event) -> None:
        for sink in sinks:
            sink(event)

    return emit
