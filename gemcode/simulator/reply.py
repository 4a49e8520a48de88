"""What a model answers, as data: Brain decides, Reply describes, the server makes the wire out of it.

A Brain is any object with `answer(request) -> Reply`: a scenario file is one, a Python class is another. It is called
once for each accepted generateContent or streamGenerateContent, in the server's thread, and must not block.

    Reply.says("Hello")                                  a text answer
    Reply.calls(Call("read_file", {"path": "a.txt"}))    one or several calls
    Reply(steps=(Thought("…"), Text("I look."), Pause(0.5), Call("list_files", {})))
    Reply(error="overloaded")                            no 200: the name of a ready-made error, or an HttpError
    Reply(steps=…, fault=Fault("reset", after=2))        a connection that breaks after two events
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

JSON_TYPE = "application/json; charset=UTF-8"

FaultKind = Literal[
    "hang_up",  # the connection is closed before the first byte of the reply
    "reset",  # TCP reset after `after` events
    "cut",  # the connection is closed after `after` events, the body left unfinished
    "half_event",  # half of the next event, then a proper end of the body
    "garbage",  # `text` (or a broken event) between two events
    "silence",  # nothing more for `seconds` (0 = until the client leaves), then a cut
    "drip",  # from here on one byte at a time, `seconds` apart
    "error_event",  # an event that holds `error`, then the end
    "bare_error_tail",  # a bare pretty-printed error object instead of the next event, then the end
    "chunk_lie",  # a chunk that announces more bytes than follow, then the connection is closed
    "content_length_lie",  # a Content-Length that is larger than the body, then the connection is closed
    "gzip_broken",  # Content-Encoding: gzip over bytes that are not gzip
    "redirect",  # 307 to `location`
    "not_http",  # bytes of another protocol instead of a reply
    "huge_event",  # one event with `size` bytes of text, then the rest
]


@dataclass(frozen=True, slots=True)
class Text:
    """One streamed piece of answer text (an event of its own)."""

    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    """One thought summary: counted always, sent only if the request asked for thoughts."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """One function call. `id` and `signature` are made up where the model would give them, unless set here."""

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Seconds of silence before the next event."""

    seconds: float


Step = Text | Thought | Call | Pause


@dataclass(frozen=True, slots=True)
class HttpError:
    """A reply that is not a 200 of the API: any status, any body (JSON value or text), extra headers."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = JSON_TYPE


@dataclass(frozen=True, slots=True)
class Fault:
    """A break of the transport after `after` good events (a unary body counts as one event)."""

    kind: FaultKind
    after: int = 0
    seconds: float = 0.0
    text: str = ""
    error: str = "high_demand"  # for error_event and bare_error_tail: a name of errors.READY_MADE
    location: str = ""
    size: int = 1 << 20


@dataclass(frozen=True, slots=True)
class Reply:
    """One model turn, or what goes wrong instead of it."""

    steps: Sequence[Step] = ()
    finish: str | None = "STOP"  # None: the stream ends without a finish reason
    finish_message: str | None = None
    blocked: str | None = None  # promptFeedback.blockReason: no candidates at all
    usage: Mapping[str, Any] | None = None  # overrides counters of the last event; null removes one
    delay_first: float = 0.0
    delay_between: float = 0.0
    raw_events: Sequence[Any] | None = None  # sent as they are instead of steps
    error: HttpError | str | None = None  # a str names one of errors.READY_MADE
    retry_after: float = 30.0  # the delay that a ready-made 429 announces
    fault: Fault | None = None

    @classmethod
    def says(cls, *texts: str) -> "Reply":
        return cls(steps=tuple(Text(text) for text in texts))

    @classmethod
    def calls(cls, *calls: Call) -> "Reply":
        return cls(steps=calls)


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request as it came in; the API key is masked. `disconnected` is set when the client left before the end."""

    number: int
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any
    size: int
    time: float
    version: str = ""
    model: str = ""
    action: str = ""
    disconnected: threading.Event = field(default_factory=threading.Event)
    finished: threading.Event = field(default_factory=threading.Event)

    @property
    def contents(self) -> list[dict[str, Any]]:
        """The contents in the form that the client sent, always as a list of objects."""
        contents = self.body.get("contents", []) if isinstance(self.body, dict) else []
        return [item for item in _listed(contents) if isinstance(item, dict)]

    @property
    def last_parts(self) -> list[dict[str, Any]]:
        """The parts of the trailing user contents: the new prompt, or the results of the last calls."""
        parts: list[dict[str, Any]] = []
        for content in reversed(self.contents):
            if content.get("role") == "model":
                break
            parts = [part for part in _listed(content.get("parts")) if isinstance(part, dict)] + parts
        return parts

    @property
    def last_text(self) -> str:
        """The text of the newest user turn; empty when it only carries results."""
        return "\n".join(part["text"] for part in self.last_parts if isinstance(part.get("text"), str))

    @property
    def results(self) -> list[dict[str, Any]]:
        """The functionResponse objects of the newest user turn: id, name, response."""
        found = [part.get("functionResponse", part.get("function_response")) for part in self.last_parts]
        return [result for result in found if isinstance(result, dict)]


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]


class Brain(Protocol):
    """The model behind the simulator."""

    def answer(self, request: RecordedRequest) -> Reply:
        """Say what the model replies to this (already accepted) request. May raise ScenarioExhausted."""
        ...


class ScenarioExhausted(Exception):
    """The brain has no reply for this request; the server answers 500 and counts a violation."""
