"""A tool is data and one function; what it would change is a value that a person can be asked about."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from gemcode.agent.errors import ToolError
from gemcode.agent.events import FileChanged
from gemcode.agent.messages import ToolCall, ToolDeclaration, ToolResult
from gemcode.agent.policy import Effect, Sensitivity
from gemcode.frozen import frozen

if TYPE_CHECKING:
    from gemcode.agent.arguments import Arguments


@frozen
class FileChange:
    """A write that has not happened: the very bytes that a person confirms and that are then written, or none of it."""

    path: str
    before: bytes | None  # None: the file does not exist yet
    after: bytes | None  # None: the file goes away
    sensitivity: Sensitivity = Sensitivity.ORDINARY
    why: str = ""  # why it is sensitive, in a few words
    new_directories: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    token: object = field(default=None, repr=False, compare=False)  # the workspace's own handle


@frozen
class SecretRead:
    """A read of a file whose name says that it holds secrets."""

    path: str
    why: str
    sensitivity: Sensitivity = Sensitivity.SECRET


Preview: TypeAlias = FileChange | SecretRead


@frozen
class Conflict:
    """A write that was approved and came too late: the file is not what the person was shown. Nothing was written."""

    path: str
    shown: bytes | None  # as the person saw it; None: it did not exist
    found: bytes | None  # as it is now
    proposed: bytes
    kept: str  # the id that brings the proposal back; "" if it could not be kept
    what: str = "changed on disk"
    saved: float | None = None  # when, as far as it is known: seconds since the epoch
    lines: int = 0  # that it has more than the person was shown


class Overtaken(ToolError):
    """The error of such a write, with the two versions that a person can be asked about."""

    def __init__(self, error: ToolError, conflict: Conflict) -> None:
        super().__init__(error.kind, error.message, **error.details)
        self.conflict = conflict


@frozen
class Output:
    """What a tool gives back: `value` for the model, `display` for the person, `changed` for the ledger."""

    value: object
    display: object = None
    changed: FileChanged | None = None


A = TypeVar("A", bound="Arguments")


@dataclass(frozen=True, slots=True)
class Tool(Generic[A]):
    """`preview` says what would happen and touches nothing; `run` does it, and gets the preview as it was approved."""

    name: str
    description: str
    arguments: type[A]
    effect: Effect
    run: Callable[[A, Preview | None], Output]
    subject: Callable[[A], str]
    preview: Callable[[A], Preview | None] = lambda _: None

    def declaration(self) -> ToolDeclaration:
        return ToolDeclaration(self.name, self.description, _lean_schema(self.arguments.model_json_schema()))


AnyTool: TypeAlias = Tool[Any]


def _lean_schema(node: Any, *, names: bool = False) -> Any:
    """The schema without what is said anyway: every byte is paid for. `names`: the keys are field names.

    Titles go; an optional argument is one that may be left out, so "or null" with null as its default goes too.
    """
    if isinstance(node, list):
        return [_lean_schema(item) for item in node]
    if not isinstance(node, dict):
        return node
    if names:
        return {key: _lean_schema(value) for key, value in node.items()}
    lean = {key: _lean_schema(value, names=key == "properties") for key, value in node.items() if key != "title"}
    match lean.get("anyOf"):
        case [dict(only), {"type": "null"}] if lean.get("default", ...) is None:
            lean = only | {key: value for key, value in lean.items() if key not in ("anyOf", "default")}
    return lean


@frozen
class ApprovalRequest:
    """What a person is asked about. To a Conflict `Approved` means: let the model read the file again."""

    call: ToolCall
    preview: Preview | Conflict
    in_turn: bool = True  # False: the person asked for it, so there is no model to tell and no turn to go on with


@frozen
class Approved:
    """Yes, to `preview`: the person may have narrowed or edited what was proposed."""

    preview: Preview | None
    rest_of_turn: bool = False


@frozen
class Declined:
    reason: str = ""


@frozen
class Stopped:
    """No, and end the turn."""


Answer: TypeAlias = Approved | Declined | Stopped
Approver: TypeAlias = Callable[[ApprovalRequest], Awaitable[Answer]]


async def decline_unasked(_: ApprovalRequest) -> Answer:
    """The approver where there is no terminal: it never asks, so the answer is no."""
    return Declined("nobody is there to confirm it: gemcode runs without a terminal")


class AuditLog(Protocol):
    """Intent before, outcome after. An audit that can't be written refuses writes, not reads."""

    def intents(self, calls: Iterable[tuple[ToolCall, Effect]]) -> Sequence[object]:
        """Record that these calls are about to run; what is returned names each in `outcome`. Raises OSError."""
        ...

    def outcome(self, entry: object, call: ToolCall, decision: str, result: ToolResult) -> None: ...
