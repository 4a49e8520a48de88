"""Gemini's reply in the Anthropic Messages dialect: events of a stream, or one message. Pure."""

from typing import assert_never

from gemcode.agent.messages import Blob, JsonObject, Opaque, Text, Thought, ToolCall, Usage
from gemcode.agent.model import Finish, FinishKind
from gemcode.gateway import content
from gemcode.gateway.dialect import (
    SSE_PING,
    SSE_TYPE,
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
    new_id,
    sse,
)

CALL_PREFIX = "toolu_"
ERRORS = {
    FailureKind.INVALID: (400, "invalid_request_error"),
    FailureKind.OVERFLOW: (400, "invalid_request_error"),
    FailureKind.UNAUTHENTICATED: (401, "authentication_error"),
    FailureKind.FORBIDDEN: (403, "permission_error"),
    FailureKind.NOT_FOUND: (404, "not_found_error"),
    FailureKind.TOO_LARGE: (413, "request_too_large"),
    FailureKind.RATE_LIMITED: (429, "rate_limit_error"),
    FailureKind.SERVER: (500, "api_error"),
    FailureKind.MALFORMED: (500, "api_error"),
    FailureKind.OVERLOADED: (529, "overloaded_error"),
}


def error_body(failure: Failure) -> JsonObject:
    return {"type": "error", "error": {"type": ERRORS[failure.kind][1], "message": failure.message}}


class AnthropicEncoder:
    """One block is open at a time, opened by its first part and closed before the next."""

    content_type = SSE_TYPE
    told_failures: frozenset[FailureKind] = frozenset()

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._message: JsonObject = {
            "id": new_id("msg_"),
            "type": "message",
            "role": "assistant",
            "model": asked.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(Usage()),
        }
        self._blocks: list[JsonObject] = self._message["content"]
        self._open: JsonObject | None = None

    def feed(self, event: ReplyEvent) -> bytes:
        match event:
            case Started():
                self._message["usage"] = _usage(event.usage)
                return sse({"type": "message_start", "message": {**self._message, "content": []}}, "message_start")
            case Thought():
                frames = self._extend("thinking", event.text) if event.text else b""
                return frames + (self._seal(event) if event.signature else b"")
            case Text():
                # A signature after the last words has no block here: Claude Code takes a thinking block at the end for
                # the answer, and an answer without words for an empty one. The gateway remembers it instead.
                sealed = self._seal(event) if event.signature and event.text else b""
                return sealed + (self._extend("text", event.text) if event.text else b"")
            case ToolCall():
                return (self._seal(event) if event.signature else b"") + self._call(event)
            case Blob():
                return self._extend("text", f"[{event.mime_type}, {len(event.data)} bytes]")
            case Opaque():
                return b""
            case Ended():
                return self._end(event)
            case _:
                assert_never(event)

    def fail(self, failure: Failure) -> bytes:
        return sse(error_body(failure), "error")

    def ping(self) -> bytes:
        return SSE_PING

    def whole(self) -> JsonObject:
        return self._message

    def _extend(self, kind: str, text: str) -> bytes:
        frames = b""
        if self._open is None or self._open["type"] != kind:
            empty = (
                {"type": "thinking", "thinking": "", "signature": ""}
                if kind == "thinking"
                else {"type": "text", "text": ""}
            )
            frames = self._start(empty)
        if self._open is not None:
            self._open[kind] += text
        return frames + self._delta({"type": f"{kind}_delta", kind: text})

    def _seal(self, part: Text | Thought | ToolCall) -> bytes:
        """The signature of the part that follows, in the thinking block before it."""
        frames = b""
        if self._open is None or self._open["type"] != "thinking":
            frames = self._start({"type": "thinking", "thinking": "", "signature": ""})
        sealed = Envelope(envelope_kind(part), self._asked.request.model, part.signature or "").seal()
        return frames + self._close(sealed)

    def _call(self, call: ToolCall) -> bytes:
        name = self._asked.names.restore(call.name).name
        block: JsonObject = {"type": "tool_use", "id": client_id(CALL_PREFIX, call.id), "name": name, "input": {}}
        frames = self._start(block) + self._delta({"type": "input_json_delta", "partial_json": dump(call.args)})
        block["input"] = call.args
        return frames + self._close()

    def _start(self, block: JsonObject) -> bytes:
        frames = self._close()
        started = sse(
            {"type": "content_block_start", "index": len(self._blocks), "content_block": block}, "content_block_start"
        )
        self._blocks.append(block)
        self._open = block
        return frames + started

    def _delta(self, delta: JsonObject) -> bytes:
        body = {"type": "content_block_delta", "index": len(self._blocks) - 1, "delta": delta}
        return sse(body, "content_block_delta")

    def _close(self, sealed: str = "") -> bytes:
        block, self._open = self._open, None
        if block is None:
            return b""
        frames = b""
        if block["type"] == "thinking":
            # The SDKs expect a signature on every thinking block; an empty envelope is dropped when it comes back.
            block["signature"] = sealed or Envelope("thought", self._asked.request.model, "").seal()
            frames = self._delta({"type": "signature_delta", "signature": block["signature"]})
        stop = sse({"type": "content_block_stop", "index": len(self._blocks) - 1}, "content_block_stop")
        return frames + stop

    def _end(self, ended: Ended) -> bytes:
        frames = b""
        if ended.finish.kind is FinishKind.BLOCKED:
            frames += self._extend("text", f"Gemini blocked this answer ({ended.finish.reason}).")
        frames += self._searches(ended.grounding) + self._close()
        reason = _stop_reason(ended.finish, self._blocks)
        usage = _usage(ended.usage)
        if queries := content.search_queries(ended.grounding):
            usage["server_tool_use"] = {"web_search_requests": len(queries)}
        self._message.update(stop_reason=reason, usage=usage)
        delta = {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}
        return frames + sse(delta, "message_delta") + sse({"type": "message_stop"}, "message_stop")

    def _searches(self, grounding: JsonObject) -> bytes:
        sources = content.search_sources(grounding)
        frames = b""
        for query in content.search_queries(grounding):
            call: JsonObject = {"type": "server_tool_use", "id": new_id("srvtoolu_"), "name": "web_search", "input": {}}
            frames += self._start(call) + self._delta(
                {"type": "input_json_delta", "partial_json": dump({"query": query})}
            )
            call["input"] = {"query": query}
            found: list[JsonObject] = [
                {
                    "type": "web_search_result",
                    "url": source.url,
                    "title": source.title,
                    "encrypted_content": "",
                    "page_age": None,
                }
                for source in sources
            ]
            frames += self._start({"type": "web_search_tool_result", "tool_use_id": call["id"], "content": found})
            sources = []  # told once, with the first query: the service does not say which query found what
        return frames


def _stop_reason(finish: Finish, blocks: list[JsonObject]) -> str:
    if finish.kind is FinishKind.BLOCKED:
        return "refusal"
    if any(block["type"] == "tool_use" for block in blocks):
        return "tool_use"
    return "max_tokens" if finish.kind is FinishKind.CUT else "end_turn"


def _usage(usage: Usage) -> JsonObject:
    return {
        "input_tokens": usage.prompt + usage.tool_prompt - usage.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output + usage.thought,
    }
