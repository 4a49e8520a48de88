"""Gemini's reply in the Anthropic Messages dialect: events of a stream, or one message. Pure."""

from gemcode.agent.messages import JsonObject, Text, Thought, ToolCall, Usage
from gemcode.gateway import content
from gemcode.gateway.dialect import Asked, Ended, Envelope, Failure, FailureKind, Started, client_id, dump, new_id, sse
from gemcode.gateway.reply import ReplyEncoder, Stop

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
_STOPS = {Stop.SAID: "end_turn", Stop.CALLS: "tool_use", Stop.CUT: "max_tokens", Stop.BLOCKED: "refusal"}


def error_body(failure: Failure) -> JsonObject:
    return {"type": "error", "error": {"type": ERRORS[failure.kind][1], "message": failure.message}}


class AnthropicEncoder(ReplyEncoder):
    """One block is open at a time, opened by its first part and closed before the next."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
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

    def fail(self, failure: Failure) -> bytes:
        return sse(error_body(failure), "error")

    def whole(self) -> JsonObject:
        return self._message

    def _begin(self, started: Started) -> bytes:
        self._message["usage"] = _usage(started.usage)
        return sse({"type": "message_start", "message": {**self._message, "content": []}}, "message_start")

    def _say(self, text: str) -> bytes:
        return self._extend("text", {"type": "text", "text": ""}, text)

    def _think(self, text: str) -> bytes:
        return self._extend("thinking", {"type": "thinking", "thinking": "", "signature": ""}, text)

    def _extend(self, kind: str, empty: JsonObject, text: str) -> bytes:
        frames = b""
        block = self._open
        if block is None or block["type"] != kind:
            frames, block = self._start(empty), empty
        block[kind] += text
        return frames + self._delta({"type": f"{kind}_delta", kind: text})

    def _sign(self, part: Text | Thought | ToolCall) -> bytes:
        """In the thinking block before the part."""
        if isinstance(part, Text) and not part.text:
            # A signature after the last words has no block here: Claude Code takes a thinking block at the end for
            # the answer, and an answer without words for an empty one. The gateway remembers it instead.
            return b""
        frames = b""
        if self._open is None or self._open["type"] != "thinking":
            frames = self._start({"type": "thinking", "thinking": "", "signature": ""})
        return frames + self._close(self._sealed(part))

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
        frames = self._explain_block(ended.finish) + self._searches(ended.grounding) + self._close()
        reason = _STOPS[self._stop(ended.finish)]
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


def _usage(usage: Usage) -> JsonObject:
    return {
        "input_tokens": usage.prompt + usage.tool_prompt - usage.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output + usage.thought,
    }
