"""Gemini's reply in the Bedrock Converse dialect: binary frames of a stream, or one answer. Pure."""

import time

from gemcode.agent.messages import JsonObject, Text, Thought, ToolCall, Usage
from gemcode.gateway.dialect import Asked, Ended, Failure, FailureKind, Started, client_id, dump
from gemcode.gateway.eventstream import CONTENT_TYPE, event_frame, exception_frame
from gemcode.gateway.reply import ReplyEncoder, Stop

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
_STOPS = {Stop.SAID: "end_turn", Stop.CALLS: "tool_use", Stop.CUT: "max_tokens", Stop.BLOCKED: "content_filtered"}


class BedrockEncoder(ReplyEncoder):
    """Blocks by index; only a tool use has a start event of its own."""

    content_type = CONTENT_TYPE
    told_failures = frozenset({FailureKind.MALFORMED})  # a stop reason says it

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self._began = time.monotonic()
        self._blocks: list[JsonObject] = []
        self._open = ""  # kind of the block under way
        self._begun = False
        self._answer: JsonObject = {}

    def fail(self, failure: Failure) -> bytes:
        frames = b"" if self._begun else self._begin(Started(Usage()))
        if failure.kind is FailureKind.MALFORMED:
            return frames + self._finish("malformed_tool_use", Usage())
        return frames + exception_frame(_STREAM_ERRORS.get(failure.kind, "internalServerException"), failure.message)

    def ping(self) -> bytes:
        return b""  # the framing knows none

    def whole(self) -> JsonObject:
        return self._answer

    def _begin(self, started: Started) -> bytes:
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

    def _sign(self, part: Text | Thought | ToolCall) -> bytes:
        """In the reasoning block before the part."""
        frames = self._think("") if self._open != "reasoning" else b""
        sealed = self._sealed(part)
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

    def _end(self, ended: Ended) -> bytes:
        return self._explain_block(ended.finish) + self._finish(_STOPS[self._stop(ended.finish)], ended.usage)

    def _finish(self, reason: str, usage: Usage) -> bytes:
        frames = self._close()
        counts = _usage(usage)
        metrics = {"latencyMs": int((time.monotonic() - self._began) * 1000)}
        message = {"role": "assistant", "content": self._blocks}
        self._answer = {"output": {"message": message}, "stopReason": reason, "usage": counts, "metrics": metrics}
        stop = event_frame("messageStop", {"stopReason": reason})
        return frames + stop + event_frame("metadata", {"usage": counts, "metrics": metrics})


def _usage(usage: Usage) -> JsonObject:
    fresh, output = usage.prompt + usage.tool_prompt - usage.cached, usage.output + usage.thought
    return {
        "inputTokens": fresh,
        "outputTokens": output,
        "totalTokens": fresh + usage.cached + output,
        "cacheReadInputTokens": usage.cached,
        "cacheWriteInputTokens": 0,
    }
