"""The entries of a session, and each as one JSON object: what happened, in order. Pure: session.py owns the file.

What the service sent is kept as it came (`raw`), so that a resumed conversation is the one it knows.
"""

import base64
from collections.abc import Callable
from typing import Any, TypeAlias, assert_never

from gemcode.agent.events import FileChanged
from gemcode.agent.messages import (
    Blob,
    JsonObject,
    Message,
    ModelMessage,
    ModelPart,
    Opaque,
    Text,
    Thought,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)
from gemcode.agent.model import FinishKind
from gemcode.frozen import frozen

SCHEMA = 1


@frozen
class Opened:
    """The first line of a file."""

    id: str
    version: str
    project: str
    forked_from: str = ""
    schema: int = SCHEMA


@frozen
class Committed:
    """A message is part of the conversation now."""

    message: Message


@frozen
class Withdrawn:
    """The last prompt got no answer and was given back to the person."""


@frozen
class StepTaken:
    """One answered request, whether or not the answer could be used."""

    model: str
    usage: Usage
    cost_usd: float | None
    finish_reason: str
    duration_ms: float
    finish_kind: str = FinishKind.COMPLETE.value


@frozen
class AttemptFailed:
    """A request that came to nothing although the service counted it: it is paid for, and part of nothing else."""

    model: str
    usage: Usage
    cost_usd: float | None


@frozen
class CallEnded:
    """One call, without its arguments and result: those are in the messages."""

    call_id: str
    name: str
    subject: str
    ok: bool
    kind: str
    duration_ms: float
    bytes: int  # of the result, as the model gets it
    writes: bool = False
    said: str = ""  # what the person saw of the result in one line


@frozen
class TurnEnded:
    status: str
    steps: int
    duration_ms: float
    finish_reason: str = ""
    error: str = ""
    hint: str = ""


@frozen
class Compacted:
    """`messages` replace the conversation so far, which stays above in the file."""

    messages: tuple[Message, ...]
    turns: int  # that are summed up; 0: only large results were taken out
    before: int  # tokens
    after: int

    def sentence(self) -> str:
        what = f"{self.turns} turn{'s' * (self.turns != 1)}" if self.turns else "old tool results"
        tokens = f"{self.before:,} tokens before, about {self.after:,} now"
        return f"Compacted {what}: {tokens}. The full text stays in the session file; undo with /compact undo."


@frozen
class Uncompacted:
    """The last compaction was undone: what it replaced is back, with what was said since."""


@frozen
class Titled:
    title: str


Entry: TypeAlias = (
    Opened
    | Committed
    | Withdrawn
    | StepTaken
    | AttemptFailed
    | CallEnded
    | FileChanged
    | TurnEnded
    | Compacted
    | Uncompacted
    | Titled
)
Journal: TypeAlias = Callable[[Entry], None]


def forget(_: Entry) -> None:
    """The journal of a conversation that is not kept."""


_PLAIN: dict[str, type[Any]] = {
    "session": Opened,
    "withdrawn": Withdrawn,
    "call": CallEnded,
    "changed": FileChanged,
    "turn": TurnEnded,
    "uncompacted": Uncompacted,
    "title": Titled,
}
_NAMES = {kind: name for name, kind in _PLAIN.items()}


def encode_entry(entry: Entry) -> JsonObject:
    """JSON with `type` first, and for a message `role` second: a reader may skip lines by their first bytes."""
    match entry:
        case Committed():
            return {"type": "message", **encode_message(entry.message)}
        case StepTaken() | AttemptFailed():
            name = "step" if isinstance(entry, StepTaken) else "attempt"
            return {"type": name, **_fields(entry), "usage": _fields(entry.usage)}
        case Compacted():
            messages = [encode_message(message) for message in entry.messages]
            numbers = {"turns": entry.turns, "before": entry.before, "after": entry.after}
            return {"type": "compacted", **numbers, "messages": messages}
        case _:
            return {"type": _NAMES[type(entry)], **_fields(entry)}


def _fields(entry: Any) -> JsonObject:
    """The fields of a flat entry. The standard asdict copies deeply, at ten times the cost of the rest."""
    return {name: getattr(entry, name) for name in entry.__match_args__}


def decode_entry(data: JsonObject) -> Entry | None:
    """The entry, or None for a kind that this version does not know. Raises ValueError for a damaged one."""
    fields = {key: value for key, value in data.items() if key not in ("type", "time")}
    try:
        match data.get("type"):
            case "message":
                return Committed(decode_message(fields))
            case "step":
                return StepTaken(**{**fields, "usage": Usage(**fields["usage"])})
            case "attempt":
                return AttemptFailed(**{**fields, "usage": Usage(**fields["usage"])})
            case "compacted":
                return Compacted(**{**fields, "messages": tuple(decode_message(one) for one in fields["messages"])})
            case name:
                kind = _PLAIN.get(str(name))
                entry: Entry | None = kind(**fields) if kind else None
                return entry
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a {data.get('type')}: {error}") from None


def encode_message(message: Message) -> JsonObject:
    match message:
        case UserMessage():
            return {"role": "user", "parts": [_encode_part(part) for part in message.parts]}
        case ModelMessage():
            return {"role": "model", "parts": [_encode_part(part) for part in message.parts]}
        case ToolMessage():
            return {"role": "tool", "results": [_encode_result(result) for result in message.results]}
        case _:
            assert_never(message)


def decode_message(data: JsonObject) -> Message:
    """Raises ValueError, KeyError or TypeError for what no message is."""
    match data["role"]:
        case "user":
            parts = tuple(_decode_part(part) for part in data["parts"])
            if any(isinstance(part, ToolCall | Thought) for part in parts):
                raise ValueError("a part of the model in a message of the user")
            return UserMessage(tuple(part for part in parts if isinstance(part, Text | Blob | Opaque)))
        case "model":
            return ModelMessage(tuple(_decode_part(part) for part in data["parts"]))
        case "tool":
            return ToolMessage(tuple(_decode_result(result) for result in data["results"]))
        case role:
            raise ValueError(f"no role {role!r}")


_PARTS: dict[str, type[Any]] = {"text": Text, "thought": Thought, "call": ToolCall, "blob": Blob, "opaque": Opaque}
_PART_NAMES = {kind: name for name, kind in _PARTS.items()}


def _encode_part(part: ModelPart) -> JsonObject:
    data: JsonObject = {"kind": _PART_NAMES[type(part)]}
    for name in type(part).__dataclass_fields__:
        value = getattr(part, name)
        if value is not None:
            data[name] = base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value
    return data


def _decode_part(data: JsonObject) -> ModelPart:
    fields = {name: value for name, value in data.items() if name != "kind"}
    if data["kind"] == "blob":
        fields["data"] = base64.b64decode(fields["data"])
    part: ModelPart = _PARTS[data["kind"]](**fields)
    for name, wanted in (("text", str), ("id", str), ("args", dict), ("raw", dict | None), ("signature", str | None)):
        if not isinstance(getattr(part, name, None), wanted) and hasattr(part, name):
            raise ValueError(f"{name} of a {data['kind']} is not one")
    return part


def _encode_result(result: ToolResult) -> JsonObject:
    data: JsonObject = {"id": result.call_id, "name": result.name, "response": result.response}
    if result.media:
        data["media"] = [_encode_part(blob) for blob in result.media]
    return data


def _decode_result(data: JsonObject) -> ToolResult:
    media = tuple(_decode_part(blob) for blob in data.get("media", ()))
    if not isinstance(data["response"], dict):
        raise ValueError("a result that is no object")
    blobs = tuple(blob for blob in media if isinstance(blob, Blob))
    return ToolResult(str(data["id"]), str(data["name"]), data["response"], blobs)
