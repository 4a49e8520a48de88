"""What every dialect shares: the protocol, the events an encoder is fed, failures, call ids, the signature envelope.

Pure and synchronous. A dialect turns a client's JSON into `Asked`, and Gemini's reply into that client's frames.
"""

import hashlib
import json
import math
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

from gemcode.agent.messages import Blob, JsonObject, ModelPart, ModelRequest, Opaque, Text, Thought, ToolCall, Usage
from gemcode.agent.model import Finish
from gemcode.gateway.names import ToolNames

SSE_TYPE = "text/event-stream"
JSON_TYPE = "application/json"


@dataclass(frozen=True, slots=True)
class Asked:
    """One client's request, understood. `model` is the name the client used; `request.model` is the Gemini one."""

    model: str
    request: ModelRequest
    stream: bool = False
    names: ToolNames = field(default_factory=ToolNames)
    single_call: bool = False  # the client takes one call at a time: siblings are not delivered
    search: bool = False  # the service's own web search, where no function is declared
    left_out: tuple[str, ...] = ()  # hosted tools that were offered and can't be served
    generation: JsonObject = field(default_factory=dict)  # knobs that only some dialects have, in Gemini's spelling
    echo: JsonObject = field(default_factory=dict)  # what the reply repeats of the request


@dataclass(frozen=True, slots=True)
class Started:
    """The first of the reply is here; `usage` counts the prompt, where the service already said it."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Ended:
    """The reply is complete. Never sent for a malformed or empty one: that is a Failure."""

    finish: Finish
    usage: Usage
    grounding: JsonObject = field(default_factory=dict)


ReplyEvent: TypeAlias = Started | Text | Thought | ToolCall | Blob | Opaque | Ended


class FailureKind(StrEnum):
    INVALID = "invalid"
    OVERFLOW = "overflow"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    TOO_LARGE = "too_large"
    RATE_LIMITED = "rate_limited"
    SERVER = "server"
    OVERLOADED = "overloaded"
    MALFORMED = "malformed"


class Failure(Exception):
    """No answer, or no whole one: each dialect says it in its own words. `message` may be shown to the client."""

    def __init__(
        self, kind: FailureKind, message: str, *, retry_after: float | None = None, code: str = "", param: str = ""
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.retry_after = retry_after
        self.code = code  # of the dialect's own, where it knows a better one than the kind gives
        self.param = param  # which field of the request is meant

    @classmethod
    def invalid(cls, param: str, message: str) -> "Failure":
        return cls(FailureKind.INVALID, f"{param}: {message}" if param else message, param=param)

    @property
    def headers(self) -> dict[str, str]:
        """What every dialect says in the same way: when to come again."""
        return {} if self.retry_after is None else {"retry-after": str(max(1, math.ceil(self.retry_after)))}


def overflow(prompt: int, limit: int, max_tokens: int | None = None) -> Failure:
    """Worded as clients parse it to shorten the conversation, or to ask for less output."""
    if max_tokens is not None and prompt <= limit:
        text = f"input length and `max_tokens` exceed context limit: {prompt} + {max_tokens} > {limit}"
    else:
        text = f"prompt is too long: {prompt} tokens > {limit} maximum"
    return Failure(FailureKind.OVERFLOW, text)


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """An HTTP error in a dialect's own shape."""

    status: int
    body: JsonObject
    headers: dict[str, str] = field(default_factory=dict)


class Encoder(Protocol):
    """Turns one reply into frames, and remembers it whole for a client that does not stream."""

    content_type: str
    told_failures: frozenset[FailureKind]  # those that belong inside of an answer with status 200

    def feed(self, event: ReplyEvent) -> bytes:
        """The frames for one event; the one for `Ended` closes the stream."""
        ...

    def fail(self, failure: Failure) -> bytes:
        """The frames that end a stream that broke."""
        ...

    def ping(self) -> bytes:
        """Something that keeps the connection open and that the client ignores."""
        ...

    def whole(self) -> JsonObject:
        """The reply as one object, after `Ended`."""
        ...


class Speaker(Protocol):
    """Knows how to say a failure to its clients."""

    name: str

    def error(self, failure: Failure) -> ErrorReply: ...


class Dialect(Speaker, Protocol):
    """One client protocol."""

    def decode(self, body: JsonObject, resolve: Callable[[str], str]) -> Asked:
        """Understand a request; `resolve` gives the Gemini model for the client's name. Raises Failure."""
        ...

    def encoder(self, asked: Asked) -> Encoder: ...


# ---- call ids -----------------------------------------------------------------------------------------------------

_CLEAN_ID = re.compile(r"[A-Za-z0-9_]{1,28}")


def clean_id(given: str) -> str:
    """An id that every backend accepts: short, plain characters. What is neither is hashed, the same every time."""
    return given if _CLEAN_ID.fullmatch(given) else hashlib.sha256(given.encode("utf-8", "replace")).hexdigest()[:24]


def client_id(prefix: str, gemini_id: str) -> str:
    return prefix + clean_id(gemini_id)


def gemini_id(prefix: str, given: str) -> str:
    """The id to send upstream: the same on a call and on its result, whoever made it up."""
    return given.removeprefix(prefix) or given


def new_id(prefix: str) -> str:
    return prefix + secrets.token_hex(12)


# ---- thought signatures in the client's reasoning channel ---------------------------------------------------------

_ENVELOPE = "gc1."


@dataclass(frozen=True, slots=True)
class Envelope:
    """A signature on its way through a client: `kind` says what part it belongs to (call, text or thought)."""

    kind: str
    model: str
    signature: str

    def seal(self) -> str:
        return f"{_ENVELOPE}{self.kind}.{self.model}.{self.signature}"

    @classmethod
    def unseal(cls, sealed: object, model: str) -> "Envelope | None":
        """None for what is not ours or was made by another model: such a signature would be refused."""
        if not isinstance(sealed, str) or not sealed.startswith(_ENVELOPE):
            return None
        kind, _, rest = sealed.removeprefix(_ENVELOPE).partition(".")
        made_by, dot, signature = rest.rpartition(".")
        if kind not in ("call", "text", "thought") or not dot or not signature or made_by != model:
            return None
        return cls(kind, made_by, signature)


def envelope_kind(part: ModelPart) -> str:
    return "call" if isinstance(part, ToolCall) else "thought" if isinstance(part, Thought) else "text"


class ChannelReader:
    """Puts signatures from the reasoning channel back onto the parts they came with, in order."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._waiting: Envelope | None = None

    def reasoning(self, sealed: object, text: str = "") -> list[ModelPart]:
        """A reasoning block was read: the parts that it stands for by itself."""
        parts = self.flush()
        envelope = Envelope.unseal(sealed, self._model)
        if envelope is not None and envelope.kind == "thought":
            return [*parts, Thought(text, envelope.signature)]
        self._waiting = envelope
        return parts

    def sign(self, part: Text | ToolCall) -> list[ModelPart]:
        """The next part of the answer was read: with its signature, if that was waiting for it."""
        waiting = self._waiting
        if waiting is None:
            return [part]
        if waiting.kind == envelope_kind(part):
            self._waiting = None
            signed = (
                Text(part.text, waiting.signature)
                if isinstance(part, Text)
                else ToolCall(part.id, part.name, part.args, waiting.signature)
            )
            return [signed]
        if waiting.kind == "text":
            return [*self.flush(), part]
        return [part]  # a call's signature waits past the text between

    def flush(self) -> list[ModelPart]:
        """The turn ended: a text signature without its text stood on an empty part, and does so again."""
        waiting, self._waiting = self._waiting, None
        return [Text("", waiting.signature)] if waiting is not None and waiting.kind == "text" else []


# ---- reading untrusted JSON ---------------------------------------------------------------------------------------


def as_object(value: Any, param: str) -> JsonObject:
    if not isinstance(value, dict):
        raise Failure.invalid(param, "must be an object")
    return value


def as_list(value: Any, param: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise Failure.invalid(param, "must be an array")
    return value


def as_messages(value: Any, param: str) -> list[Any]:
    """What was said: a list with something in it, be it an empty message."""
    messages = as_list(value, param)
    if not messages:
        raise Failure.invalid(param, "at least one message is required")
    return messages


def as_text(value: Any, param: str) -> str:
    if not isinstance(value, str):
        raise Failure.invalid(param, "must be a string")
    return value


_LARGEST = 2**53  # also keeps out the infinity that 1e999 becomes


def as_number(value: Any, param: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_LARGEST <= value <= _LARGEST:
        raise Failure.invalid(param, "must be a number")
    return value


def as_count(value: Any, param: str) -> int | None:
    number = as_number(value, param)
    if number is None:
        return None
    if number != int(number) or number < 1:
        raise Failure.invalid(param, "must be a whole number above zero")
    return int(number)


def _finite(number: str) -> float:
    """Also for NaN and the infinities, which Python would read and no JSON may hold."""
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number[:40]} is not a number of JSON")
    return value


def load(text: str | bytes) -> Any:
    """JSON as it may be sent on: a number that is none, or too large to be one, is a ValueError as any other fault."""
    return json.loads(text, parse_float=_finite, parse_constant=_finite)


def parse_arguments(text: Any) -> JsonObject:
    """Arguments that a client sends as JSON text. What does not parse is kept: the model sees what it had written."""
    if isinstance(text, dict):
        return text
    try:
        value = load(text) if isinstance(text, str) and text.strip() else {}
    except (ValueError, RecursionError):
        return {"_raw": text}
    return value if isinstance(value, dict) else {"_raw": text}


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))  # made once: a stream dumps many small frames


def dump(value: Any) -> str:
    return _ENCODER.encode(value)


def dump_bytes(value: Any) -> bytes:
    """JSON bytes; half a surrogate pair becomes a question mark instead of an error."""
    return dump(value).encode("utf-8", "replace")


def sse(data: JsonObject, event: str = "") -> bytes:
    name = f"event: {event}\n".encode() if event else b""
    return name + b"data: " + dump_bytes(data) + b"\n\n"


SSE_PING = b": keep-alive\n\n"
