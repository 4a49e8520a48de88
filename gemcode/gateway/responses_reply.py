"""Gemini's reply in the OpenAI Responses dialect: events of a stream, or one response object. Pure."""

import time

from gemcode.agent.messages import JsonObject, Text, Thought, ToolCall, Usage
from gemcode.agent.model import FinishKind
from gemcode.gateway import content
from gemcode.gateway.dialect import Asked, Ended, Failure, FailureKind, Started, client_id, dump, new_id, sse
from gemcode.gateway.openai_error import error_object
from gemcode.gateway.reply import ReplyEncoder

CALL_PREFIX = "call_"
RESPONSE_PREFIX = "resp_"


def response_of(item: str) -> str:
    """The id of the response that an item of this id came with."""
    return RESPONSE_PREFIX + item.partition("_")[2].rpartition("_")[0]


class ResponsesEncoder(ReplyEncoder):
    """One output item is open at a time; each event has the next sequence number."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        # Codex shortens the conversation when a stream says so, and stops when an HTTP status does.
        self.told_failures = frozenset({FailureKind.OVERFLOW} if asked.stream else ())
        self._sequence = 0
        self._open: JsonObject | None = None
        self._output: list[JsonObject] = []
        self._begun = False
        self.response: JsonObject = {
            "id": new_id(RESPONSE_PREFIX),
            "object": "response",
            "created_at": int(time.time()),
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "max_output_tokens": None,
            "model": asked.model,
            "output": self._output,
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "temperature": 1.0,
            "tool_choice": "auto",
            "top_p": 0.95,
            "metadata": {},
            "usage": None,
            # The prompt and the tools are long and the client has them: a stream does not repeat them in its events.
            **{key: value for key, value in asked.echo.items() if value is not None and key != "instructions"},
            "tools": [],
        }

    def fail(self, failure: Failure) -> bytes:
        frames = b"" if self._begun else self._begin(Started(Usage()))
        error = error_object(failure)
        code = error["code"] or "invalid_prompt"
        self.response.update(status="failed", error={"code": code, "message": failure.message})
        return frames + self._event("response.failed", response=self.response)

    def whole(self) -> JsonObject:
        return {
            **self.response,
            **{key: self._asked.echo[key] for key in ("tools", "instructions") if key in self._asked.echo},
        }

    def _event(self, kind: str, **fields: object) -> bytes:
        frame = sse({"type": kind, "sequence_number": self._sequence, **fields}, kind)
        self._sequence += 1
        return frame

    def _begin(self, started: Started) -> bytes:
        self._begun = True
        return self._event("response.created", response=self.response) + self._event(
            "response.in_progress", response=self.response
        )

    def _item_event(self, kind: str, **fields: object) -> bytes:
        item = self._output[-1]
        return self._event(kind, item_id=item["id"], output_index=len(self._output) - 1, **fields)

    def _item_id(self, prefix: str) -> str:
        """For the next item. It names its response: so an item that a client refers to is found without an index."""
        return f"{prefix}{self.response['id'].removeprefix(RESPONSE_PREFIX)}_{len(self._output)}"

    def _start(self, item: JsonObject) -> bytes:
        frames = self._close()
        self._output.append(item)
        self._open = item
        return frames + self._event("response.output_item.added", output_index=len(self._output) - 1, item=item)

    def _say(self, text: str) -> bytes:
        frames = b""
        if self._open is None or self._open["type"] != "message":
            item = {
                "id": self._item_id("msg_"),
                "type": "message",
                "role": "assistant",
                "status": "in_progress",
                "content": [],
            }
            frames = self._start(item)
            part: JsonObject = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            frames += self._item_event("response.content_part.added", content_index=0, part=part)
            self._output[-1]["content"] = [part]
        self._output[-1]["content"][0]["text"] += text
        return frames + self._item_event("response.output_text.delta", content_index=0, delta=text, logprobs=[])

    def _think(self, text: str) -> bytes:
        frames = b""
        if self._open is None or self._open["type"] != "reasoning":
            frames = self._start({"id": self._item_id("rs_"), "type": "reasoning", "summary": []})
        part: JsonObject = {"type": "summary_text", "text": text}
        place = {"summary_index": len(self._output[-1]["summary"])}
        empty: JsonObject = {"type": "summary_text", "text": ""}
        frames += self._item_event("response.reasoning_summary_part.added", **place, part=empty)
        frames += self._item_event("response.reasoning_summary_text.delta", **place, delta=text)
        frames += self._item_event("response.reasoning_summary_text.done", **place, text=text)
        frames += self._item_event("response.reasoning_summary_part.done", **place, part=part)
        self._output[-1]["summary"].append(part)
        return frames

    def _sign(self, part: Text | Thought | ToolCall) -> bytes:
        """In the reasoning item before the part."""
        frames = b""
        if self._open is None or self._open["type"] != "reasoning":
            frames = self._start({"id": self._item_id("rs_"), "type": "reasoning", "summary": []})
        self._output[-1]["encrypted_content"] = self._sealed(part)
        return frames + self._close()

    def _call(self, call: ToolCall) -> bytes:
        tool = self._asked.names.restore(call.name)
        item: JsonObject = {"id": "", "type": "", "status": "in_progress"}
        item |= {"call_id": client_id(CALL_PREFIX, call.id), "name": tool.name}
        if tool.namespace:
            item["namespace"] = tool.namespace
        if tool.kind == "custom":
            key, kind, text = "input", "custom_tool_call", _free_text(call.args)
            delta, done = "response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"
        else:
            key, kind, text = "arguments", "function_call", dump(call.args)
            delta, done = "response.function_call_arguments.delta", "response.function_call_arguments.done"
        item |= {"id": self._item_id("ctc_" if tool.kind == "custom" else "fc_"), "type": kind, key: ""}
        frames = self._start(item) + self._item_event(delta, delta=text)
        item[key] = text
        extra = {"name": tool.name} if tool.kind != "custom" else {}
        return frames + self._item_event(done, **{key: text}, **extra) + self._close()

    def _close(self) -> bytes:
        item, self._open = self._open, None
        if item is None:
            return b""
        frames = b""
        if item["type"] == "message":
            part = item["content"][0]
            frames += self._item_event("response.output_text.done", content_index=0, text=part["text"], logprobs=[])
            frames += self._item_event("response.content_part.done", content_index=0, part=part)
        if item["type"] != "reasoning":
            item["status"] = "completed"
        return frames + self._event("response.output_item.done", output_index=len(self._output) - 1, item=item)

    def _end(self, ended: Ended) -> bytes:
        self._annotate(ended.grounding)
        frames = self._close()
        self.response["usage"] = _usage(ended.usage)
        match ended.finish.kind:
            case FinishKind.CUT:
                reason = "max_output_tokens"
            case FinishKind.BLOCKED:
                reason = "content_filter"
            case _:
                self.response["status"] = "completed"
                self.response["completed_at"] = int(time.time())
                return frames + self._event("response.completed", response=self.response)
        self.response.update(status="incomplete", incomplete_details={"reason": reason})
        return frames + self._event("response.incomplete", response=self.response)

    def _annotate(self, grounding: JsonObject) -> None:
        messages = [item for item in self._output if item["type"] == "message"]
        for source in content.search_sources(grounding) if messages else ():
            span = {"start_index": 0, "end_index": 0}
            citation = {"type": "url_citation", "url": source.url, "title": source.title, **span}
            messages[0]["content"][0]["annotations"].append(citation)


def _free_text(args: JsonObject) -> str:
    value = args.get("input")
    return value if isinstance(value, str) else dump(args)


def _usage(usage: Usage) -> JsonObject:
    prompt, output = usage.prompt + usage.tool_prompt, usage.output + usage.thought
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": usage.thought},
        "total_tokens": prompt + output,
    }
