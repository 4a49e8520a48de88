"""`gemcode convert`: tool definitions, calls and results from one dialect's JSON to another's. Pure.

Strict refuses with the path of what the target can't hold; permissive warns and carries on.
"""

import base64
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gemcode.agent.errors import UsageError
from gemcode.agent.messages import Blob, JsonObject
from gemcode.gateway import bedrock
from gemcode.gateway.dialect import Failure, dump, load
from gemcode.gateway.items import FORMATS, CallItem, Format, Item, ResultItem, ToolItem, as_format, read_items
from gemcode.gateway.names import ClientTool
from gemcode.gateway.responses import FREE_TEXT_SCHEMA, grammar_words
from gemcode.gateway.schema import losses, normalize

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Conversion:
    """JSON text in the target's form, and what was lost on the way."""

    text: str
    warnings: tuple[str, ...]


def convert(text: str, source: str, target: str, *, strict: bool = False) -> Conversion:
    """Convert what `text` holds. Raises UsageError: for text that can't be read, and for a loss when strict."""
    try:
        value = load(text)
        items = read_items(value, as_format(source))
        writer = _Writer(as_format(target))
    except RecursionError:
        raise UsageError("The text is nested too deeply.") from None
    except ValueError as error:
        raise UsageError(f"The text is not JSON: {error}.") from None
    except Failure as failure:
        raise UsageError(f"{failure.message}.") from None
    if not items:
        likely = " or ".join(_formats_of(value))
        hint = f"It looks like {likely}: say so with --from." if likely else ""
        raise UsageError(f"There is no tool definition, call or result of {source} in the text.", hint)
    converted = writer.write(_with_ids(items))
    if strict and writer.losses:
        more = f" (and {len(writer.losses) - 1} more)" if len(writer.losses) > 1 else ""
        raise UsageError(f"{writer.losses[0]}{more}.", "Without --strict this is a warning.")
    return Conversion(json.dumps(converted, ensure_ascii=False, indent=2), tuple(writer.losses))


def _formats_of(value: Any) -> Iterator[str]:
    """Those that find something of theirs."""
    for known in FORMATS:
        try:
            if read_items(value, known):
                yield known
        except Failure:
            continue


def _with_ids(items: Sequence[Item]) -> list[Item]:
    """Gemini's calls and results may have no id: they get one, and a result that of the first open call of its name."""
    numbered: list[Item] = []
    open_calls: dict[str, list[str]] = {}
    for index, item in enumerate(items):
        if isinstance(item, CallItem) and not item.id:
            item = replace(item, id=f"call_{index}")
            open_calls.setdefault(item.name, []).append(item.id)
        elif isinstance(item, ResultItem) and not item.id:
            waiting = open_calls.get(item.name)
            item = replace(item, id=waiting.pop(0) if waiting else f"call_{index}")
        numbered.append(item)
    return numbered


class _Writer:
    """Writes items in one format and notes what it can't keep."""

    def __init__(self, target: Format) -> None:
        self.losses: list[str] = []
        self._target = target
        self._names: dict[str, str] = {}  # call id → name, for results that do not say it

    def write(self, items: Sequence[Item]) -> Any:
        """One kind of items: the list of them (or the single one). Several: an object of lists."""
        calls = [item for item in items if isinstance(item, CallItem)]
        self._names = {call.id: ClientTool(call.name, call.namespace).gemini_name for call in calls}
        written: dict[str, list[Any]] = {}
        for item in items:
            match item:
                case ToolItem():
                    written.setdefault("tools", []).append(_TOOLS[self._target](self._tool(item)))
                case CallItem():
                    written.setdefault("calls", []).append(_CALLS[self._target](self._call(item)))
                case ResultItem():
                    written.setdefault("results", []).append(self._result(item))
        if self._target == "gemini" and "tools" in written:
            written["tools"] = [{"functionDeclarations": written["tools"]}]
        if len(written) > 1:
            return written
        (only,) = written.values()
        return only[0] if len(items) == 1 and self._target != "gemini" else only

    def _lose(self, path: str, what: str) -> None:
        self.losses.append(f"{path}: {what}")

    def _name(self, path: str, name: str, namespace: str) -> str:
        if namespace and self._target == "responses":
            return name
        if not namespace and self._target != "gemini" and _PLAIN_NAME.fullmatch(name):
            return name  # Gemini alone wants a letter first
        safe = ClientTool(name, namespace).gemini_name
        if safe != name:
            self._lose(f"{path}.name", f"{name!r} becomes {safe!r}")
        return safe

    def _tool(self, item: ToolItem) -> ToolItem:
        name = self._name(item.path, item.name, item.namespace)
        schema, description = item.schema, item.description
        if item.free_text and self._target != "responses":
            self._lose(item.path, "a tool of free text becomes a function with one string")
            schema, description = FREE_TEXT_SCHEMA, description + grammar_words(schema)
        elif self._target == "gemini":
            for place, what in losses(schema):
                self._lose(f"{item.path}{item.schema_at}{place}", what)
            schema = normalize(schema)
        return ToolItem(item.path, name, description, schema, item.namespace, item.free_text)

    def _call(self, item: CallItem) -> CallItem:
        name = self._name(item.path, item.name, item.namespace)
        if item.signature and self._target != "gemini":
            self._lose(f"{item.path}.thoughtSignature", "a call has no place for a signature")
        return CallItem(item.path, item.id, name, item.args, item.signature, item.namespace, item.free_text)

    def _result(self, item: ResultItem) -> JsonObject:
        for place in item.flattened:
            self._lose(place, "is neither text nor an image, and becomes JSON text")
        if not item.ok and self._target in ("responses", "chat"):
            self._lose(item.path, "a failed result can't be marked as failed")
        if item.media and self._target in ("chat", "amazonq"):
            self._lose(item.path, "a result has no place for an image")
        match self._target:
            case "anthropic":
                said: list[JsonObject] = [{"type": "text", "text": text}] if (text := _text(item.value)) else []
                blocks = [*said, *map(_anthropic_image, item.media)]
                result = {"type": "tool_result", "tool_use_id": item.id, "content": blocks}
                return {**result, "is_error": True} if not item.ok else result
            case "responses":
                return {"type": "function_call_output", "call_id": item.id, "output": _responses_output(item)}
            case "chat":
                return {"role": "tool", "tool_call_id": item.id, "content": _text(item.value)}
            case "gemini":
                return self._function_response(item)
            case "bedrock":
                return {"toolResult": _tool_result(item)}
            case "amazonq":
                return bedrock.to_amazon_q_result(_tool_result(ResultItem(item.path, item.id, item.value, item.ok)))

    def _function_response(self, item: ResultItem) -> JsonObject:
        name = item.name or self._names.get(item.id, "")
        if not name:
            self._lose(item.path, "the name of the function is not known: its call is not in the text")
            name = item.id
        answer: JsonObject = {"id": item.id, "name": name, "response": {"output" if item.ok else "error": item.value}}
        if item.media:
            answer["parts"] = [{"inlineData": {"mimeType": b.mime_type, "data": _base64(b)}} for b in item.media]
        return {"functionResponse": answer}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else dump(value)


def _base64(blob: Blob) -> str:
    return base64.b64encode(blob.data).decode()


def _anthropic_image(blob: Blob) -> JsonObject:
    source = {"type": "base64", "media_type": blob.mime_type, "data": _base64(blob)}
    return {"type": "image", "source": source}


def _responses_output(item: ResultItem) -> str | list[JsonObject]:
    if not item.media:
        return _text(item.value)
    images = [{"type": "input_image", "image_url": f"data:{b.mime_type};base64,{_base64(b)}"} for b in item.media]
    said = [{"type": "input_text", "text": text}] if (text := _text(item.value)) else []
    return [*said, *images]


def _tool_result(item: ResultItem) -> JsonObject:
    value: JsonObject = {"text": item.value} if isinstance(item.value, str) else {"json": item.value}
    values = [value] if item.value != "" or not item.media else []
    images = [
        {"image": {"format": b.mime_type.rpartition("/")[2], "source": {"bytes": _base64(b)}}} for b in item.media
    ]
    return {"toolUseId": item.id, "content": [*values, *images], "status": "success" if item.ok else "error"}


def _gemini_declaration(tool: ToolItem) -> JsonObject:
    declaration: JsonObject = {"name": tool.name, "description": tool.description}
    return {**declaration, "parametersJsonSchema": tool.schema} if tool.schema.get("properties") else declaration


def _responses_tool(tool: ToolItem) -> JsonObject:
    named: JsonObject = {"name": tool.name, "description": tool.description}
    if tool.free_text:
        inner: JsonObject = {"type": "custom", **named, **({"format": tool.schema} if tool.schema else {})}
    else:
        inner = {"type": "function", **named, "parameters": tool.schema, "strict": False}
    return {"type": "namespace", "name": tool.namespace, "tools": [inner]} if tool.namespace else inner


def _tool_spec(tool: ToolItem) -> JsonObject:
    return {"name": tool.name, "description": tool.description, "inputSchema": {"json": tool.schema}}


def _responses_call(call: CallItem) -> JsonObject:
    item: JsonObject = {"type": "custom_tool_call" if call.free_text else "function_call", "call_id": call.id}
    item["name"] = call.name
    if call.namespace:
        item["namespace"] = call.namespace
    if call.free_text:
        return {**item, "input": str(call.args.get("input") or "")}
    return {**item, "arguments": dump(call.args)}


def _gemini_call(call: CallItem) -> JsonObject:
    part: JsonObject = {"functionCall": {"id": call.id, "name": call.name, "args": call.args}}
    return {**part, "thoughtSignature": call.signature} if call.signature else part


def _tool_use(call: CallItem) -> JsonObject:
    return {"toolUseId": call.id, "name": call.name, "input": call.args}


_TOOLS: dict[Format, Callable[[ToolItem], JsonObject]] = {
    "anthropic": lambda tool: {
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.schema or {"type": "object"},
    },
    "responses": _responses_tool,
    "chat": lambda tool: {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema},
    },
    "gemini": _gemini_declaration,
    "bedrock": lambda tool: {"toolSpec": _tool_spec(tool)},
    "amazonq": lambda tool: bedrock.to_amazon_q_tool(_tool_spec(tool)),
}
_CALLS: dict[Format, Callable[[CallItem], JsonObject]] = {
    "anthropic": lambda call: {"type": "tool_use", "id": call.id, "name": call.name, "input": call.args},
    "responses": _responses_call,
    "chat": lambda call: {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": dump(call.args)},
    },
    "gemini": _gemini_call,
    "bedrock": lambda call: {"toolUse": _tool_use(call)},
    "amazonq": lambda call: bedrock.to_amazon_q_use(_tool_use(call)),
}
