"""A client's conversation → messages that Gemini accepts: roles alternate, every call has its result, none is orphaned.

Pure. Dialects add what they read, in order; `build` pairs and completes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from gemcode.agent.messages import (
    Blob,
    JsonObject,
    Message,
    ModelMessage,
    ModelPart,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    UserPart,
)
from gemcode.gateway.dialect import dump

NO_RESULT = "No result of this call was recorded."
CONTINUE = "Continue."
_BLANK = " "  # a content needs a part, and an empty text may be refused


@dataclass(frozen=True, slots=True)
class Answer:
    """One result as the client sent it; its call is found by `build`."""

    call_id: str
    response: JsonObject
    media: tuple[Blob, ...] = ()


@dataclass(slots=True)
class _Step:
    """What the model said, and what was answered before it spoke again."""

    model: list[ModelPart] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    user: list[UserPart] = field(default_factory=list)


_Entry: TypeAlias = UserPart | Answer


class History:
    """Collects a conversation in the order of the client's messages."""

    def __init__(self) -> None:
        self._steps = [_Step()]

    def user(self, parts: Sequence[_Entry]) -> None:
        for part in parts:
            if isinstance(part, Answer):
                self._steps[-1].answers.append(part)
            elif not isinstance(part, Text) or part.text:
                self._steps[-1].user.append(part)

    def model(self, parts: Sequence[ModelPart]) -> None:
        kept = [part for part in parts if not isinstance(part, Text) or part.text or part.signature]
        if not kept:
            return
        last = self._steps[-1]
        if last.answers or last.user:
            last = _Step()
            self._steps.append(last)
        last.model += kept

    def build(self) -> tuple[Message, ...]:
        messages = list(self._messages())
        if not messages or not isinstance(messages[0], UserMessage):
            messages.insert(0, UserMessage.of(_BLANK))
        if isinstance(messages[-1], ModelMessage):
            messages.append(UserMessage.of(CONTINUE))
        return tuple(messages)

    def _messages(self) -> Iterator[Message]:
        for step in self._steps:
            calls = [part for part in step.model if isinstance(part, ToolCall)]
            results, orphans = _pair(calls, step.answers)
            parts = step.model
            if len({call.id for call in calls} - {""}) < len(calls):
                parts, results = _renumber(parts, results)
            if parts:
                yield ModelMessage(tuple(parts))
            if results:
                yield ToolMessage(tuple(results))
            said: tuple[UserPart, ...] = (*orphans, *step.user)
            if said:
                yield UserMessage(said)


def _pair(calls: Sequence[ToolCall], answers: Sequence[Answer]) -> tuple[list[ToolResult], list[UserPart]]:
    """One result for each call, in call order; what answers no call becomes text."""
    waiting: dict[str, list[Answer]] = {}
    for answer in answers:
        waiting.setdefault(answer.call_id, []).append(answer)
    results = []
    for call in calls:
        found = waiting.get(call.id)
        answer = found.pop(0) if found else Answer(call.id, {"error": NO_RESULT})
        results.append(ToolResult(call.id, call.name, answer.response, answer.media))
    orphans: list[UserPart] = []
    for answer in (answer for rest in waiting.values() for answer in rest):
        orphans += [Text(f"Result of an earlier call: {_as_text(answer.response)}"), *answer.media]
    return results, orphans


def _renumber(parts: Sequence[ModelPart], results: Sequence[ToolResult]) -> tuple[list[ModelPart], list[ToolResult]]:
    """Calls of one step with the same id, or with none, can't be told apart upstream: ids by position instead."""
    numbered: list[ModelPart] = []
    count = 0
    for part in parts:
        if isinstance(part, ToolCall):
            part = replace(part, id=f"step_{count}")
            count += 1
        numbered.append(part)
    return numbered, [replace(result, call_id=f"step_{index}") for index, result in enumerate(results)]


def _as_text(response: JsonObject) -> str:
    value = response.get("output", response.get("error", response))
    return value if isinstance(value, str) else dump(value)


def reminder(text: str) -> Text:
    """Words of the operator in the middle of a conversation: Gemini knows no such role."""
    return Text(f"<system-reminder>\n{text}\n</system-reminder>")


def as_response(text: str, *, ok: bool) -> JsonObject:
    """The service reads `output` as success and `error` as failure."""
    return {"output": text} if ok else {"error": text}
