"""What a conversation is made of. Values only: no wire format, no I/O.

A part that came from the service keeps its JSON in `raw`: it is replayed as it is, and only gemini/ looks into it.
"""

from collections.abc import Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any, TypeAlias

from gemcode.frozen import frozen

JsonObject: TypeAlias = dict[str, Any]


@frozen
class Text:
    """Words of the user or of the model."""

    text: str
    signature: str | None = None
    raw: JsonObject | None = None


@frozen
class Thought:
    """A summary of the model's thinking: shown on request, never part of the answer."""

    text: str
    signature: str | None = None
    raw: JsonObject | None = None


@frozen
class ToolCall:
    """A call the model asks for. `id` is the service's, or a local one where the service gives none."""

    id: str
    name: str
    args: JsonObject
    signature: str | None = None
    raw: JsonObject | None = None


@frozen
class Blob:
    """Bytes with a media type: an image, a PDF."""

    mime_type: str
    data: bytes
    signature: str | None = None
    raw: JsonObject | None = None


@frozen
class Opaque:
    """A part of a kind we do not know. It is carried along and replayed in place."""

    raw: JsonObject


UserPart: TypeAlias = Text | Blob | Opaque
ModelPart: TypeAlias = Text | Thought | ToolCall | Blob | Opaque


@frozen
class ToolResult:
    """The answer to one call, with two faces: `response` for the model, `display` for the person (never sent)."""

    call_id: str
    name: str
    response: JsonObject
    media: tuple[Blob, ...] = ()
    display: object = field(default=None, compare=False)

    @property
    def ok(self) -> bool:
        return "error" not in self.response

    @property
    def error_message(self) -> str:
        error = self.response.get("error")
        return str(error.get("message", error)) if isinstance(error, dict) else str(error or "")

    @property
    def error_kind(self) -> str:
        error = self.response.get("error")
        return str(error.get("type", "error")) if isinstance(error, dict) else "error"


@frozen
class UserMessage:
    parts: tuple[UserPart, ...]

    @classmethod
    def of(cls, text: str) -> "UserMessage":
        return cls((Text(text),))

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Text))


@frozen
class ModelMessage:
    """One step of the model, its parts in the order received. Never empty in a history."""

    parts: tuple[ModelPart, ...]

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


@frozen
class ToolMessage:
    """All results of one model step, one per call, in call order: the pairing rule can't be broken."""

    results: tuple[ToolResult, ...]


Message: TypeAlias = UserMessage | ModelMessage | ToolMessage


@frozen
class ToolDeclaration:
    """What the model is told about a tool. `schema` is JSON Schema."""

    name: str
    description: str
    schema: JsonObject


class ChoiceMode(StrEnum):
    AUTO = "auto"
    REQUIRED = "required"
    NONE = "none"


@frozen
class ToolChoice:
    """Whether the model may, must or must not call; with `names`, one of these only."""

    mode: ChoiceMode = ChoiceMode.AUTO
    names: tuple[str, ...] = ()


@frozen
class Generation:
    """How to generate. None means: the model's own default."""

    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop_sequences: tuple[str, ...] = ()
    thinking_level: str | None = None
    thinking_budget: int | None = None
    include_thoughts: bool = False
    response_schema: JsonObject | None = None


@frozen
class ModelRequest:
    """One request. `system` and `tools` are the stable prefix: they must not vary between the turns of a session."""

    model: str
    messages: Sequence[Message]
    system: str = ""
    tools: tuple[ToolDeclaration, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    generation: Generation = Generation()


@frozen
class Usage:
    """Tokens. `prompt` includes `cached`; `output` excludes `thought`."""

    prompt: int = 0
    cached: int = 0
    output: int = 0
    thought: int = 0
    tool_prompt: int = 0
    total: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.prompt + other.prompt,
            self.cached + other.cached,
            self.output + other.output,
            self.thought + other.thought,
            self.tool_prompt + other.tool_prompt,
            self.total + other.total,
        )
