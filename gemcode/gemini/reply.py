"""Gemini JSON → ModelReplied, event by event. Pure: no I/O, no SDK.

Every part keeps its JSON in `raw`. Only plain text (or plain thought) that goes on in the next event is merged.
"""

import base64
import binascii
import secrets
from collections.abc import Callable, Set
from typing import Any

from gemcode.agent.messages import (
    Blob,
    JsonObject,
    ModelMessage,
    ModelPart,
    ModelRequest,
    Opaque,
    Text,
    Thought,
    ToolCall,
    Usage,
)
from gemcode.agent.model import Finish, FinishKind, ModelReplied, TextDelta, ThoughtDelta
from gemcode.gemini import failures
from gemcode.gemini.arguments import PartialCall

CONTINUATION = "CONTINUATION"

_KINDS = {
    "MAX_TOKENS": FinishKind.CUT,
    CONTINUATION: FinishKind.CUT,  # without a token to go on with
    "SAFETY": FinishKind.BLOCKED,
    "RECITATION": FinishKind.BLOCKED,
    "LANGUAGE": FinishKind.BLOCKED,
    "BLOCKLIST": FinishKind.BLOCKED,
    "PROHIBITED_CONTENT": FinishKind.BLOCKED,
    "SPII": FinishKind.BLOCKED,
    "MODEL_ARMOR": FinishKind.BLOCKED,
    "IMAGE_SAFETY": FinishKind.BLOCKED,
    "IMAGE_PROHIBITED_CONTENT": FinishKind.BLOCKED,
    "IMAGE_RECITATION": FinishKind.BLOCKED,
    "MALFORMED_FUNCTION_CALL": FinishKind.MALFORMED,
    "UNEXPECTED_TOOL_CALL": FinishKind.MALFORMED,
}
_PLAIN_TEXT = {"text"}
_PLAIN_THOUGHT = {"text", "thought"}
_TOOL_PREFIXES = ("default_api:", "default_api.")


def _new_call_id() -> str:
    return f"local-{secrets.token_hex(6)}"


class StreamDecoder:
    """Takes the events of one answer (a unary answer is one event) and tells the whole at the end."""

    def __init__(
        self,
        request: ModelRequest,
        new_id: Callable[[], str] = _new_call_id,
        watch: Callable[[ModelPart], None] = lambda part: None,
    ) -> None:
        """`watch` is told of every part as it arrives, before neighbouring text is joined."""
        self._model = request.model
        self._declared = frozenset(tool.name for tool in request.tools)
        self._new_id = new_id
        self._watch = watch
        self._parts: list[ModelPart] = []
        self._run: list[str] = []  # pieces of plain text or thought that go on from event to event
        self._run_type: type[Text] | type[Thought] = Text
        self._partial: PartialCall | None = None
        self._ids: set[str] = set()
        self._reason = ""
        self._message = ""
        self._block_reason = ""
        self._token: str | None = None
        self._progress = False  # whether this hop brought any part
        self._usage = Usage()
        self._usage_before = Usage()  # of the hops that ended with CONTINUATION

    def feed(self, event: object) -> list[TextDelta | ThoughtDelta]:
        """Take one event. Raises ModelError when the event says that the stream failed."""
        if isinstance(event, list):
            return [delta for item in event for delta in self.feed(item)]
        if not isinstance(event, dict):
            raise failures.broken_stream(f"An event is not an object: {str(event)[:200]}")
        failure = failures.from_json(event, self._model)
        if failure is not None:
            raise failure
        feedback = _object(event.get("promptFeedback"))
        if block_reason := _string(feedback.get("blockReason")):
            self._block_reason = block_reason
            self._message = _string(feedback.get("blockReasonMessage"))
        if usage := _object(event.get("usageMetadata")):
            self._usage = decode_usage(usage)
        candidates = event.get("candidates")
        return self._feed_candidate(_object(candidates[0])) if isinstance(candidates, list) and candidates else []

    def _feed_candidate(self, candidate: JsonObject) -> list[TextDelta | ThoughtDelta]:
        parts = _object(candidate.get("content")).get("parts")
        deltas: list[TextDelta | ThoughtDelta] = []
        for position, raw in enumerate(parts if isinstance(parts, list) else ()):
            part = self._decode(raw) if isinstance(raw, dict) and raw else None
            if part is None:
                continue
            self._progress = True
            self._watch(part)
            self._append(part, continues=position == 0)
            if isinstance(part, Text | Thought) and part.text:
                deltas.append(TextDelta(part.text) if isinstance(part, Text) else ThoughtDelta(part.text))
        # The last one counts: a stream may go on after a first finish reason.
        if reason := _string(candidate.get("finishReason")):
            self._reason = reason
            self._message = _string(candidate.get("finishMessage"))
        self._token = _string(candidate.get("continuationToken")) or self._token
        return deltas

    @property
    def usage(self) -> Usage:
        """What the answer has used so far, in all its hops."""
        return self._usage_before + self._usage

    def next_hop(self) -> str | None:
        """The token to go on with when the service stopped in the middle of a long answer."""
        if self._reason != CONTINUATION or self._token is None or not self._progress:
            return None
        token, self._token, self._progress = self._token, None, False
        self._reason = self._message = ""
        self._usage_before += self._usage
        self._usage = Usage()
        return token

    def finish(self) -> ModelReplied:
        self._end_run()
        finish = self._finish()
        # A call runs only from a complete answer; elsewhere it would stay unanswered and spoil the history.
        complete = finish.kind is FinishKind.COMPLETE
        parts = tuple(part for part in self._parts if complete or not isinstance(part, ToolCall))
        return ModelReplied(ModelMessage(parts), finish, self.usage)

    def _finish(self) -> Finish:
        says_something = any(
            isinstance(part, ToolCall) or (isinstance(part, Text) and part.text.strip()) for part in self._parts
        )
        if self._block_reason and not says_something:
            return Finish(FinishKind.BLOCKED, self._block_reason, self._message)
        if not self._reason:
            return Finish(FinishKind.EMPTY, "", self._message)
        if self._reason != "STOP":
            return Finish(_KINDS.get(self._reason, FinishKind.OTHER), self._reason, self._message)
        if self._partial is not None:
            return Finish(FinishKind.MALFORMED, self._reason, "The arguments of a call did not arrive completely.")
        return Finish(FinishKind.COMPLETE if says_something else FinishKind.EMPTY, self._reason, self._message)

    def _append(self, part: ModelPart, continues: bool) -> None:
        keys = set(part.raw or {})
        plain = (isinstance(part, Text) and keys == _PLAIN_TEXT) or (
            isinstance(part, Thought) and keys == _PLAIN_THOUGHT
        )
        if not plain or not isinstance(part, Text | Thought):
            self._end_run()
            self._parts.append(part)
            return
        if not (continues and self._run_type is type(part)):
            self._end_run()
        self._run_type = type(part)
        self._run.append(part.text)

    def _end_run(self) -> None:
        if not self._run:
            return
        text = "".join(self._run)
        self._run.clear()
        raw: JsonObject = {"text": text}
        if self._run_type is Thought:
            raw["thought"] = True
        self._parts.append(self._run_type(text, raw=raw))

    def _decode(self, raw: JsonObject) -> ModelPart | None:
        """None for a piece of a call that is not complete yet."""
        call = raw.get("functionCall")
        if isinstance(call, dict):
            if self._partial is not None and not call.get("name"):
                if not self._partial.absorb(call):
                    return None
                raw, self._partial = self._partial.whole_part(), None
            elif call.get("willContinue"):
                self._partial = PartialCall(raw)
                return None
            elif call.get("partialArgs"):
                raw = PartialCall(raw).whole_part()
        part = decode_part(raw, self._declared)
        return self._with_own_id(part) if isinstance(part, ToolCall) else part

    def _with_own_id(self, call: ToolCall) -> ToolCall:
        """Pairing needs an id of its own for each call; on the wire it stays as it came."""
        call_id = call.id
        while not call_id or call_id in self._ids:
            call_id = self._new_id()
        self._ids.add(call_id)
        return ToolCall(call_id, call.name, call.args, call.signature, call.raw)


def decode_part(raw: JsonObject, declared: Set[str] = frozenset()) -> ModelPart:
    """A part of any kind, also of one not known yet. A call without an id on the wire gets the empty one."""
    signature = raw.get("thoughtSignature")
    signature = signature if isinstance(signature, str) else None
    call = raw.get("functionCall")
    if isinstance(call, dict) and isinstance(call.get("name"), str) and call["name"]:
        name = _declared_name(call["name"], declared)
        return ToolCall(_string(call.get("id")), name, _object(call.get("args")), signature, raw)
    if isinstance(text := raw.get("text"), str):
        return Thought(text, signature, raw) if raw.get("thought") is True else Text(text, signature, raw)
    data = _object(raw.get("inlineData"))
    if isinstance(data.get("data"), str):
        try:
            return Blob(_string(data.get("mimeType")), _decode_base64(data["data"]), signature, raw)
        except (binascii.Error, ValueError):
            return Opaque(raw)
    return Opaque(raw)


def decode_usage(usage: JsonObject) -> Usage:
    """Counters that are zero are left out by the service."""
    return Usage(
        prompt=_count(usage.get("promptTokenCount")),
        cached=_count(usage.get("cachedContentTokenCount")),
        output=_count(usage.get("candidatesTokenCount")),
        thought=_count(usage.get("thoughtsTokenCount")),
        tool_prompt=_count(usage.get("toolUsePromptTokenCount")),
        total=_count(usage.get("totalTokenCount")),
    )


def _declared_name(name: str, declared: Set[str]) -> str:
    """Models sometimes put the name of their own namespace before a tool's."""
    if name not in declared:
        for prefix in _TOOL_PREFIXES:
            if name.startswith(prefix) and name.removeprefix(prefix) in declared:
                return name.removeprefix(prefix)
    return name


def _decode_base64(text: str) -> bytes:
    """Standard or URL-safe, padded or not."""
    standard = text.translate(str.maketrans("-_", "+/")).rstrip("=")
    return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
