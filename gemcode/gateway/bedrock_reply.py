"""Gemini's reply in the Bedrock Converse dialect: binary frames of a stream, or one answer. Pure."""

import time
from typing import assert_never

from gemcode.agent.messages import Blob, JsonObject, Opaque, Text, Thought, ToolCall, Usage
from gemcode.agent.model import Finish, FinishKind
from gemcode.gateway.dialect import (
    Asked,
    Ended,
    Envelope,
    Failure,
    FailureKind,
    ReplyEvent,
    Started,
    client_id,
    dump,
    envelope_kind,
)
from gemcode.gateway.eventstream import CONTENT_TYPE, event_frame, exception_frame

CALL_PREFIX = "tooluse_"
ERRORS = {
    FailureKind.INVALID: (400, "ValidationException"),
    FailureKind.OVERFLOW: (400, "ValidationException"),
    FailureKind.UNAUTHENTICATED: (403, "AccessDeniedException"),
    FailureKind.FORBIDDEN: (403, "AccessDeniedException"),
    FailureKind.NOT_FOUND: (404, "ResourceNotFoundException"),
    FailureKind.TOO_LARGE: (413, "ValidationException"),
    FailureKind.RATE_LIMITED: (429, "ThrottlingException"),
    FailureKind.SERVER: (500, "InternalServerException"),
    FailureKind.MALFORMED: (500, "InternalServerException"),
    FailureKind.OVERLOADED: (503, "ServiceUnavailableException"),
}
# A stream knows fewer exceptions than the status line does.
_STREAM_ERRORS = {
    FailureKind.INVALID: "validationException",
    FailureKind.OVERFLOW: "validationException",
    FailureKind.TOO_LARGE: "validationException",
    FailureKind.RATE_LIMITED: "throttlingException",
    FailureKind.OVERLOADED: "serviceUnavailableException",
}


class BedrockEncoder:
    """Blocks by index; only a tool use has a start event of its own."""

    content_type = CONTENT_TYPE
    told_failures = frozenset({FailureKind.MALFORMED})  # a stop reason says it

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._began = time.monotonic()
        self._blocks: list[JsonObject] = []
        self._open = ""  # kind of the block under way
        self._begun = False
        self._answer: JsonObject = {}

    def feed(self, event: ReplyEvent) -> bytes:
        match event:
            case Started():
                return self._begin()
            case Thought():
                frames = self._think(event.text) if event.text else b""
                return frames + (self._seal(event) if event.signature else b"")
            case Text():
                sealed = self._seal(event) if event.signature else b""
                return sealed + (self._say(event.text) if event.text else b"")
            case ToolCall():
                return (self._seal(event) if event.signature else b"") + self._call(event)
            case Blob():
                return self._say(f"[{event.mime_type}, {len(event.data)} bytes]")
            case Opaque():
                return b""
            case Ended():
                told = event.finish.kind is FinishKind.BLOCKED
                frames = self._say(f"Gemini blocked this answer ({event.finish.reason}).") if told else b""
                return frames + self._end(_stop_reason(event.finish, self._blocks), event.usage)
            case _:
                assert_never(event)

    def fail(self, failure: Failure) -> bytes:
        frames = b"" if self._begun else self._begin()
        if failure.kind is FailureKind.MALFORMED:
            return frames + self._end("malformed_tool_use", Usage())
        return frames + exception_frame(_STREAM_ERRORS.get(failure.kind, "internalServerException"), failure.message)

    def ping(self) -> bytes:
        return b""  # the framing knows none

    def whole(self) -> JsonObject:
        return self._answer

    def _begin(self) -> bytes:
        self._begun = True
        return event_frame("messageStart", {"role": "assistant"})

    def _delta(self, delta: JsonObject) -> bytes:
        return event_frame("contentBlockDelta", {"delta": delta, "contentBlockIndex": len(self._blocks) - 1})

    def _start(self, kind: str, block: JsonObject) -> bytes:
        frames = self._close()
        self._blocks.append(block)
        self._open = kind
        return frames

    def _close(self) -> bytes:
        kind, self._open = self._open, ""
        return event_frame("contentBlockStop", {"contentBlockIndex": len(self._blocks) - 1}) if kind else b""

    def _say(self, text: str) -> bytes:
        frames = self._start("text", {"text": ""}) if self._open != "text" else b""
        self._blocks[-1]["text"] += text
        return frames + self._delta({"text": text})

    def _think(self, text: str) -> bytes:
        frames = b""
        if self._open != "reasoning":
            frames = self._start("reasoning", {"reasoningContent": {"reasoningText": {"text": ""}}})
        self._blocks[-1]["reasoningContent"]["reasoningText"]["text"] += text
        return frames + self._delta({"reasoningContent": {"text": text}})

    def _seal(self, part: Text | Thought | ToolCall) -> bytes:
        """The signature of the part that follows, in the reasoning block before it."""
        frames = self._think("") if self._open != "reasoning" else b""
        sealed = Envelope(envelope_kind(part), self._asked.request.model, part.signature or "").seal()
        self._blocks[-1]["reasoningContent"]["reasoningText"]["signature"] = sealed
        return frames + self._delta({"reasoningContent": {"signature": sealed}}) + self._close()

    def _call(self, call: ToolCall) -> bytes:
        use: JsonObject = {
            "toolUseId": client_id(CALL_PREFIX, call.id),
            "name": self._asked.names.restore(call.name).name,
        }
        frames = self._start("tool", {"toolUse": {**use, "input": call.args}})
        start = {"start": {"toolUse": use}, "contentBlockIndex": len(self._blocks) - 1}
        frames += event_frame("contentBlockStart", start)
        return frames + self._delta({"toolUse": {"input": dump(call.args)}}) + self._close()

    def _end(self, reason: str, usage: Usage) -> bytes:
        frames = self._close()
        counts = _usage(usage)
        metrics = {"latencyMs": int((time.monotonic() - self._began) * 1000)}
        message = {"role": "assistant", "content": self._blocks}
        self._answer = {"output": {"message": message}, "stopReason": reason, "usage": counts, "metrics": metrics}
        stop = event_frame("messageStop", {"stopReason": reason})
        return frames + stop + event_frame("metadata", {"usage": counts, "metrics": metrics})


def _stop_reason(finish: Finish, blocks: list[JsonObject]) -> str:
    if finish.kind is FinishKind.BLOCKED:
        return "content_filtered"
    if any("toolUse" in block for block in blocks):
        return "tool_use"
    return "max_tokens" if finish.kind is FinishKind.CUT else "end_turn"


def _usage(usage: Usage) -> JsonObject:
    fresh, output = usage.prompt + usage.tool_prompt - usage.cached, usage.output + usage.thought
    return {
        "inputTokens": fresh,
        "outputTokens": output,
        "totalTokens": fresh + usage.cached + output,
        "cacheReadInputTokens": usage.cached,
        "cacheWriteInputTokens": 0,
    }
