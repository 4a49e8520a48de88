"""ModelRequest → Gemini JSON. Pure: no I/O, no SDK. Reading the answer is in reply.py.

What the service sent is replayed as it was: the `raw` of a part wins over its fields.
"""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from gemcode.agent.errors import ModelError
from gemcode.agent.messages import (
    Blob,
    ChoiceMode,
    Generation,
    JsonObject,
    Message,
    ModelMessage,
    ModelPart,
    ModelRequest,
    Opaque,
    Text,
    Thought,
    ToolCall,
    ToolDeclaration,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from gemcode.gemini import catalog

# The documented signature for calls that the model did not make itself.
ESCAPE_SIGNATURE = base64.b64encode(b"skip_thought_signature_validator").decode()

# Fields that stand beside a payload. A part of these alone is refused, so it is sent with an empty text.
_SIDE_FIELDS = frozenset({"thought", "thoughtSignature", "partMetadata", "mediaResolution", "videoMetadata"})
_BUDGET_OF_LEVEL = {"minimal": 512, "low": 1024, "medium": 8192, "high": 24576}


class KnownCalls:
    """The calls of a conversation by id, the newest of each, in their order: for the results that follow them."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[int, ToolCall]] = {}
        self._count = 0

    def add(self, call: ToolCall) -> None:
        self._calls[call.id] = (self._count, call)
        self._count += 1

    def find(self, call_id: str) -> ToolCall | None:
        found = self._calls.get(call_id)
        return found[1] if found else None

    def position(self, call_id: str) -> int:
        found = self._calls.get(call_id)
        return found[0] if found else self._count


def encode_request(request: ModelRequest) -> JsonObject:
    """The body to send. What stays the same between requests comes first, the growing `contents` last."""
    known = KnownCalls()
    modern = takes_signatures(request.model)
    contents = (encode_content(message, known, modern) for message in request.messages)
    return {**encode_head(request), "contents": [content for content in contents if content is not None]}


def encode_head(request: ModelRequest) -> JsonObject:
    """All of the body but the conversation."""
    body: JsonObject = {}
    if request.system:
        body["systemInstruction"] = {"parts": [{"text": request.system}]}
    if request.tools:
        body["tools"] = [{"functionDeclarations": [encode_declaration(tool) for tool in request.tools]}]
        body["toolConfig"] = {"functionCallingConfig": _calling_config(request)}
    if config := _generation_config(request.generation, request.model):
        body["generationConfig"] = config
    return body


def dump_body(body: JsonObject) -> bytes:
    """JSON to send. Half a surrogate pair (from a file name that is no UTF-8, say) becomes a question mark.

    A number that is none is refused here, where it is known, and not by the service.
    """
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")
    except ValueError as error:
        hint = "Start anew with /clear."
        raise ModelError("The request holds a number that JSON can't carry.", hint, detail=str(error)) from None


def without_signatures(request: ModelRequest, first: int | None = None) -> ModelRequest:
    """The same request with the signatures taken off, of all or the first few messages.

    Each step's first call is marked by the escape instead.
    """
    messages = [
        ModelMessage(tuple(_unsigned_parts(message))) if isinstance(message, ModelMessage) else message
        for message in request.messages[:first]
    ]
    return replace(request, messages=(*messages, *request.messages[len(messages) :]))


def _unsigned_parts(message: ModelMessage) -> Iterator[ModelPart]:
    first_call = next(iter(message.calls), None)
    for part in message.parts:
        signature = ESCAPE_SIGNATURE if part is first_call else None
        raw = part.raw
        if raw is not None:
            raw = {key: value for key, value in raw.items() if key != "thoughtSignature"}
            if signature:
                raw["thoughtSignature"] = signature
        if isinstance(part, Opaque):
            yield Opaque(raw or {})
        else:
            yield replace(part, signature=signature, raw=raw)


def encode_declaration(tool: ToolDeclaration) -> JsonObject:
    """What the model is told about one tool."""
    declaration: JsonObject = {"name": tool.name, "description": tool.description}
    if tool.schema:
        declaration["parametersJsonSchema"] = tool.schema
    return declaration


def _calling_config(request: ModelRequest) -> JsonObject:
    """VALIDATED is AUTO with calls held to the schema: the best there is against malformed calls."""
    choice = request.tool_choice
    validates = catalog.generation(request.model) >= (2, 5)
    match choice.mode:
        case ChoiceMode.NONE:
            return {"mode": "NONE"}
        case ChoiceMode.REQUIRED:
            config: JsonObject = {"mode": "ANY"}
        case ChoiceMode.AUTO:
            config = {"mode": "VALIDATED" if validates else "AUTO"}
        case _:
            assert_never(choice.mode)
    if choice.names and config["mode"] != "AUTO":
        config["allowedFunctionNames"] = list(choice.names)
    return config


def _generation_config(generation: Generation, model: str) -> JsonObject:
    config: JsonObject = {
        "temperature": generation.temperature,
        "topP": generation.top_p,
        "maxOutputTokens": generation.max_output_tokens,
        "stopSequences": list(generation.stop_sequences) or None,
        "responseMimeType": "application/json" if generation.response_schema is not None else None,
        "responseJsonSchema": generation.response_schema,
        "thinkingConfig": _thinking_config(generation, model) or None,
    }
    return {key: value for key, value in config.items() if value is not None}


def _thinking_config(generation: Generation, model: str) -> JsonObject:
    """Models from 3 on take a level and refuse a budget, older ones the reverse: whichever was given is translated."""
    level, budget = generation.thinking_level, generation.thinking_budget
    config: JsonObject = {}
    if catalog.generation(model) >= (3, 0):
        if level is None and budget is not None and budget >= 0:
            level = _level_of_budget(budget, model)
        if level is not None:
            config["thinkingLevel"] = level
    else:
        if budget is None and level is not None:
            budget = _BUDGET_OF_LEVEL.get(level.lower())
        if budget is not None:
            config["thinkingBudget"] = budget
    if generation.include_thoughts:
        config["includeThoughts"] = True
    return config


def _level_of_budget(budget: int, model: str) -> str:
    info = catalog.find(model)
    levels = info.thinking_levels if info else ("low", "medium", "high")
    return next((level for level in levels if budget <= _BUDGET_OF_LEVEL[level]), levels[-1])


def takes_signatures(model: str) -> bool:
    """Whether the model is of a generation that signs its calls and wants that back."""
    return catalog.generation(model) >= (3, 0)


def encode_content(message: Message, known: KnownCalls, modern: bool) -> JsonObject | None:
    """One message; None for an empty one, which would be refused. `known` gathers the calls before it."""
    role, parts = _content(message, known, modern)
    return {"role": role, "parts": parts} if parts else None


def _content(message: Message, known: KnownCalls, modern: bool) -> tuple[str, list[JsonObject]]:
    """Role and parts of one message. `known` gathers the calls by id, in order, for the results that follow."""
    match message:
        case UserMessage():
            return "user", [encode_part(part) for part in message.parts] or [{"text": ""}]
        case ModelMessage():
            for call in message.calls:
                known.add(call)
            return "model", list(_model_parts(message, modern))
        case ToolMessage():
            results = sorted(message.results, key=lambda result: known.position(result.call_id))
            return "user", list(_result_parts(results, known, modern))
        case _:
            assert_never(message)


def _model_parts(message: ModelMessage, modern: bool) -> Iterator[JsonObject]:
    """A step's first call must be signed from 3 on; one made by hand is given the escape.

    Older turns are not checked, but get it as well: what was sent once must stay the same to be cached.
    """
    first_call = next(iter(message.calls), None)
    for part in message.parts:
        if modern and part is first_call and part.raw is None and part.signature is None:
            part = replace(part, signature=ESCAPE_SIGNATURE)
        yield encode_part(part)


def encode_part(part: ModelPart) -> JsonObject:
    """A part as the service takes it: what it sent itself untouched, else made from the fields."""
    if part.raw is not None:
        return part.raw if part.raw.keys() - _SIDE_FIELDS else {"text": "", **part.raw}
    match part:
        case Text():
            encoded: JsonObject = {"text": part.text}
        case Thought():
            encoded = {"text": part.text, "thought": True}
        case Blob():
            encoded = _inline_data(part)
        case ToolCall():
            encoded = {"functionCall": {"id": part.id, "name": part.name, "args": part.args}}
        case _:
            assert_never(part)
    if part.signature is not None:
        encoded["thoughtSignature"] = part.signature
    return encoded


def _result_parts(results: list[ToolResult], known: KnownCalls, modern: bool) -> Iterator[JsonObject]:
    """All results, in call order; then their media, for models that do not take them inside of a result."""
    for result in results:
        response: JsonObject = {**_pairing(result, known.find(result.call_id)), "response": result.response}
        if modern and result.media:
            response["parts"] = [_inline_data(blob) for blob in result.media]
        yield {"functionResponse": response}
    if not modern:
        yield from (_inline_data(blob) for result in results for blob in result.media)


def _pairing(result: ToolResult, call: ToolCall | None) -> JsonObject:
    """Id and name exactly as the call has them on the wire: no id where the service gave none."""
    if call is None:
        return {"id": result.call_id, "name": result.name}
    sent = call.raw.get("functionCall") if call.raw is not None else None
    if not isinstance(sent, dict):
        return {"id": call.id, "name": call.name}
    return {key: sent[key] for key in ("id", "name") if sent.get(key) is not None}


def _inline_data(blob: Blob) -> JsonObject:
    return {"inlineData": {"mimeType": blob.mime_type, "data": base64.b64encode(blob.data).decode()}}
