"""The OpenAI Chat Completions dialect, for everything that speaks it. Pure.

It has no channel for reasoning: a call's signature travels in `extra_content`, which many clients drop, and the gateway
remembers it as well.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from gemcode.agent.messages import (
    Generation,
    JsonObject,
    ModelRequest,
    Text,
    Thought,
    ToolCall,
    Usage,
    UserPart,
)
from gemcode.gateway import content
from gemcode.gateway.dialect import (
    Asked,
    Ended,
    Envelope,
    ErrorReply,
    Failure,
    Started,
    as_count,
    as_list,
    as_messages,
    as_number,
    as_object,
    as_text,
    client_id,
    dump,
    gemini_id,
    new_id,
    parse_arguments,
    sse,
)
from gemcode.gateway.history import History, reminder
from gemcode.gateway.names import safe_name
from gemcode.gateway.openai_error import error_object, error_reply
from gemcode.gateway.reply import ReplyEncoder, Stop
from gemcode.gateway.responses import read_answer, read_choice, read_part, read_tools

CALL_PREFIX = "call_"
_SEEDS = 2**31  # Gemini's are of 32 bits
_DONE = b"data: [DONE]\n\n"
_STOPS = {Stop.SAID: "stop", Stop.CALLS: "tool_calls", Stop.CUT: "length", Stop.BLOCKED: "content_filter"}


class ChatDialect:
    name = "chat"

    def decode(self, body: JsonObject, resolve: Callable[[str], str]) -> Asked:
        client_model = as_text(body.get("model"), "model")
        model = resolve(client_model)
        if body.get("n") not in (None, 1):
            raise Failure.invalid("n", "only one choice is supported")
        if body.get("functions"):
            raise Failure.invalid("functions", "is the old form, which is not served; use tools")
        declared, hosted = read_tools(as_list(body.get("tools"), "tools"))
        names, tools = content.declare(declared)
        searches = [content.WEB_SEARCH] if "web_search_options" in body else []
        search, left_out = content.hosted([*hosted, *searches], tools)
        system, rest = _split_system(as_messages(body.get("messages"), "messages"))
        request = ModelRequest(
            model=model,
            messages=_messages(rest, model),
            system="\n\n".join(system),
            tools=tools,
            tool_choice=read_choice(body.get("tool_choice"), names),
            generation=_generation(body, model),
        )
        seed = as_number(body.get("seed"), "seed")
        options = as_object(body.get("stream_options") or {}, "stream_options")
        return Asked(
            model=client_model,
            request=request,
            stream=body.get("stream") is True,
            names=names,
            single_call=body.get("parallel_tool_calls") is False,
            search=search,
            left_out=left_out,
            generation={} if seed is None else {"seed": int(seed) % _SEEDS},
            echo={"include_usage": options.get("include_usage") is True},
        )

    def encoder(self, asked: Asked) -> "ChatEncoder":
        return ChatEncoder(asked)

    def error(self, failure: Failure) -> ErrorReply:
        return error_reply(failure)


# ---- request ------------------------------------------------------------------------------------------------------


def _generation(body: JsonObject, model: str) -> Generation:
    limit = "max_tokens" if body.get("max_completion_tokens") is None else "max_completion_tokens"
    return Generation(
        max_output_tokens=content.output_limit(model, as_count(body.get(limit), limit)),
        temperature=as_number(body.get("temperature"), "temperature"),
        top_p=as_number(body.get("top_p"), "top_p"),
        stop_sequences=content.stop_sequences(body.get("stop"), "stop"),
        thinking_level=content.thinking_level(body.get("reasoning_effort")),
        response_schema=content.response_schema(body.get("response_format"), "response_format"),
    )


def _parts(value: Any, param: str) -> list[UserPart]:
    if value is None or isinstance(value, str):
        return [Text(value or "")]
    return [read_part(as_object(item, param), param) for item in as_list(value, param)]


def _split_system(messages: Sequence[Any]) -> tuple[list[str], Sequence[Any]]:
    texts: list[str] = []
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in ("system", "developer"):
            return texts, messages[index:]
        parts = _parts(message.get("content"), f"messages[{index}].content")
        texts += [part.text for part in parts if isinstance(part, Text) and part.text]
    return texts, []


def _messages(messages: Sequence[Any], model: str) -> tuple[Any, ...]:
    history = History()
    for index, item in enumerate(messages):
        param = f"messages[{index}]"
        message = as_object(item, param)
        match message.get("role"):
            case "user":
                history.user(_parts(message.get("content"), f"{param}.content"))
            case "system" | "developer":
                parts = _parts(message.get("content"), f"{param}.content")
                history.user([reminder(part.text) for part in parts if isinstance(part, Text) and part.text])
            case "assistant":
                history.model(_parts(message.get("content"), f"{param}.content"))
                calls = as_list(message.get("tool_calls"), f"{param}.tool_calls")
                history.model([_call(as_object(call, param), model, f"{param}.tool_calls") for call in calls])
            case "tool":
                call_id = gemini_id(CALL_PREFIX, as_text(message.get("tool_call_id"), f"{param}.tool_call_id"))
                history.user([read_answer(call_id, message.get("content"), f"{param}.content")])
            case _:
                raise Failure.invalid(f"{param}.role", "must be system, developer, user, assistant or tool")
    return history.build()


def _call(call: JsonObject, model: str, param: str) -> ToolCall:
    call_id = gemini_id(CALL_PREFIX, as_text(call.get("id"), f"{param}.id"))
    custom = call.get("type") == "custom"
    inner = as_object(call.get("custom" if custom else "function"), f"{param}.function")
    name = safe_name(as_text(inner.get("name"), f"{param}.function.name"))
    args = {"input": str(inner.get("input") or "")} if custom else parse_arguments(inner.get("arguments"))
    extra = call.get("extra_content")
    google = extra.get("google") if isinstance(extra, dict) else None
    sealed = google.get("thought_signature") if isinstance(google, dict) else None
    envelope = Envelope.unseal(sealed, model)
    return ToolCall(call_id, name, args, envelope.signature if envelope else None)


# ---- reply --------------------------------------------------------------------------------------------------------


class ChatEncoder(ReplyEncoder):
    """Chunks with one choice; the role comes with the first, the finish reason with the last."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self._head: JsonObject = {"id": new_id("chatcmpl-"), "created": int(time.time()), "model": asked.model}
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._calls: list[JsonObject] = []
        self._annotations: list[JsonObject] = []
        self._finish = ""
        self._usage: JsonObject = {}

    def fail(self, failure: Failure) -> bytes:
        return sse({"error": error_object(failure)}) + _DONE

    def whole(self) -> JsonObject:
        message: JsonObject = {"role": "assistant", "content": "".join(self._text) or None, "refusal": None}
        if self._thoughts:
            message["reasoning_content"] = "\n\n".join(self._thoughts)
        if self._calls:
            message["tool_calls"] = self._calls
        if self._annotations:
            message["annotations"] = self._annotations
        choice = {"index": 0, "message": message, "finish_reason": self._finish, "logprobs": None}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": self._usage}

    def _chunk(self, delta: JsonObject, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return sse({**self._head, "object": "chat.completion.chunk", "choices": [choice]})

    def _begin(self, started: Started) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def _say(self, text: str) -> bytes:
        self._text.append(text)
        return self._chunk({"content": text})

    def _think(self, text: str) -> bytes:
        self._thoughts.append(text)
        return self._chunk({"reasoning_content": text})

    def _sign(self, part: Text | Thought | ToolCall) -> bytes:
        return b""  # only a call has a place for it, its own

    def _call(self, call: ToolCall) -> bytes:
        tool = self._asked.names.restore(call.name)
        custom = tool.kind == "custom"
        key, kind = ("input", "custom") if custom else ("arguments", "function")
        given = call.args.get("input")
        text = given if custom and isinstance(given, str) else dump(call.args)
        item: JsonObject = {"id": client_id(CALL_PREFIX, call.id), "type": kind, kind: {"name": tool.name, key: text}}
        if call.signature:
            item["extra_content"] = {"google": {"thought_signature": self._sealed(call)}}
        index = len(self._calls)
        self._calls.append(item)
        opening = {"index": index, **item, kind: {"name": tool.name, key: ""}}
        rest = {"index": index, kind: {key: text}}
        return self._chunk({"tool_calls": [opening]}) + self._chunk({"tool_calls": [rest]})

    def _end(self, ended: Ended) -> bytes:
        self._finish = _STOPS[self._stop(ended.finish)]
        for source in content.search_sources(ended.grounding):
            cited = {"url": source.url, "title": source.title, "start_index": 0, "end_index": 0}
            self._annotations.append({"type": "url_citation", "url_citation": cited})
        self._usage = _usage(ended.usage)
        frames = self._chunk({"annotations": self._annotations} if self._annotations else {}, self._finish)
        if self._asked.echo.get("include_usage"):
            frames += sse({**self._head, "object": "chat.completion.chunk", "choices": [], "usage": self._usage})
        return frames + _DONE


def _usage(usage: Usage) -> JsonObject:
    prompt, output = usage.prompt + usage.tool_prompt, usage.output + usage.thought
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.thought},
    }
