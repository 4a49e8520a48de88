"""Tool definitions, calls and results read out of any dialect's JSON, wherever in it they stand. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from gemcode.agent.messages import Blob, JsonObject
from gemcode.gateway import bedrock, content
from gemcode.gateway.dialect import Failure, as_list, as_object, as_text, dump, parse_arguments

Format = Literal["anthropic", "responses", "chat", "gemini", "bedrock", "amazonq"]
FORMATS: tuple[Format, ...] = ("anthropic", "responses", "chat", "gemini", "bedrock", "amazonq")


@dataclass(frozen=True, slots=True)
class ToolItem:
    """A definition. `free_text` marks a tool that takes text instead of arguments; its schema is the text's format."""

    path: str
    name: str
    description: str
    schema: JsonObject
    namespace: str = ""
    free_text: bool = False
    schema_at: str = ""  # where in the item the schema stands


@dataclass(frozen=True, slots=True)
class CallItem:
    path: str
    id: str
    name: str
    args: JsonObject
    signature: str | None = None
    namespace: str = ""
    free_text: bool = False


@dataclass(frozen=True, slots=True)
class ResultItem:
    """`value` is text or any JSON. `name` is known only where the dialect says it."""

    path: str
    id: str
    value: Any
    ok: bool = True
    media: tuple[Blob, ...] = field(default=())
    name: str = ""
    flattened: tuple[str, ...] = ()  # where blocks stood that became text


Item: TypeAlias = ToolItem | CallItem | ResultItem
Reader: TypeAlias = Callable[[JsonObject, str], Iterator[Item] | None]


def read_items(value: Any, source: Format) -> list[Item]:
    """Every item in the order of the text. Raises Failure where one is broken."""
    return list(_walk(value, "$", _READERS[source]))


def _walk(value: Any, path: str, read: Reader) -> Iterator[Item]:
    """An object that is no item itself may hold some: a message, a request, a list of tools."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, f"{path}[{index}]", read)
    elif isinstance(value, dict):
        found = read(value, path)
        if found is not None:
            yield from found
            return
        for key, item in value.items():
            if isinstance(item, dict | list):
                yield from _walk(item, f"{path}.{key}", read)


def _schema(value: Any, path: str) -> JsonObject:
    return {} if value is None else as_object(value, path)


def _anthropic(value: JsonObject, path: str) -> Iterator[Item] | None:
    kind = value.get("type")
    if "input_schema" in value:
        schema = _schema(value["input_schema"], f"{path}.input_schema")
        name = as_text(value.get("name"), f"{path}.name")
        return iter([ToolItem(path, name, str(value.get("description") or ""), schema, schema_at=".input_schema")])
    if kind == "tool_use":
        arguments = as_object(value.get("input") or {}, f"{path}.input")
        name, identifier = as_text(value.get("name"), f"{path}.name"), as_text(value.get("id"), f"{path}.id")
        return iter([CallItem(path, identifier, name, arguments)])
    if kind == "tool_result":
        identifier = as_text(value.get("tool_use_id"), f"{path}.tool_use_id")
        raw = value.get("content")
        blocks = [{"type": "text", "text": raw}] if isinstance(raw, str) else as_list(raw, f"{path}.content")
        texts, media, lost = _blocks(blocks, f"{path}.content", _anthropic_block)
        ok = value.get("is_error") is not True
        return iter([ResultItem(path, identifier, "\n".join(texts), ok, media, flattened=lost)])
    return None


Block: TypeAlias = Callable[[JsonObject, str], str | Blob | None]


def _blocks(blocks: list[Any], path: str, read: Block) -> tuple[list[str], tuple[Blob, ...], tuple[str, ...]]:
    """Texts and media of a result. What is neither becomes text as it stands, and its place is told."""
    texts: list[str] = []
    media: list[Blob] = []
    lost: list[str] = []
    for index, item in enumerate(blocks):
        place = f"{path}[{index}]"
        block = as_object(item, place)
        found = read(block, place)
        if isinstance(found, Blob):
            media.append(found)
            continue
        if found is None:
            lost.append(place)
        texts.append(dump(block) if found is None else found)
    return texts, tuple(media), tuple(lost)


def _anthropic_block(block: JsonObject, path: str) -> str | Blob | None:
    source = block.get("source")
    if block.get("type") == "image" and isinstance(source, dict) and source.get("type") == "base64":
        return Blob(str(source.get("media_type")), content.decode_base64(source.get("data"), f"{path}.source.data"))
    return as_text(block.get("text"), f"{path}.text") if block.get("type") == "text" else None


def _openai_block(block: JsonObject, path: str) -> str | Blob | None:
    url = block.get("image_url")
    if url is not None:
        found = content.media_of_url(url.get("url") if isinstance(url, dict) else url, path)
        return found if isinstance(found, Blob) else None
    return as_text(block["text"], f"{path}.text") if "text" in block else None


def _bedrock_block(block: JsonObject, path: str) -> str | Blob | None:
    if isinstance(block.get("image"), dict):
        return bedrock.read_image(block["image"], f"{path}.image")
    return dump(block["json"]) if "json" in block else as_text(block["text"], path) if "text" in block else None


def _responses(value: JsonObject, path: str, namespace: str = "") -> Iterator[Item] | None:
    match value.get("type"):
        case "function" if "function" not in value:
            name = as_text(value.get("name"), f"{path}.name")
            schema = _schema(value.get("parameters"), f"{path}.parameters")
            description = str(value.get("description") or "")
            return iter([ToolItem(path, name, description, schema, namespace, schema_at=".parameters")])
        case "custom":
            return iter([_custom_tool(value, path, namespace)])
        case "namespace":
            members = value.get("tools")
            space = as_text(value.get("name"), f"{path}.name")
            return _walk(members, f"{path}.tools", lambda item, where: _responses(item, where, space))
        case "function_call" | "custom_tool_call":
            return iter([_responses_call(value, path)])
        case "function_call_output" | "custom_tool_call_output":
            return iter([_openai_result(value, "call_id", "output", path)])
    return None


def _custom_tool(value: JsonObject, path: str, namespace: str = "") -> ToolItem:
    name, form = as_text(value.get("name"), f"{path}.name"), as_object(value.get("format") or {}, f"{path}.format")
    return ToolItem(path, name, str(value.get("description") or ""), form, namespace, free_text=True)


def _responses_call(value: JsonObject, path: str) -> CallItem:
    identifier, name = as_text(value.get("call_id"), f"{path}.call_id"), as_text(value.get("name"), f"{path}.name")
    free = value["type"] == "custom_tool_call"
    args = {"input": value.get("input")} if free else parse_arguments(value.get("arguments"))
    return CallItem(path, identifier, name, args, namespace=str(value.get("namespace") or ""), free_text=free)


def _openai_result(value: JsonObject, key: str, where: str, path: str) -> ResultItem:
    identifier = as_text(value.get(key), f"{path}.{key}")
    output = value.get(where)
    if not isinstance(output, list):
        return ResultItem(path, identifier, output if output is not None else "")
    texts, media, lost = _blocks(output, f"{path}.{where}", _openai_block)
    return ResultItem(path, identifier, "\n".join(texts), media=media, flattened=lost)


def _chat(value: JsonObject, path: str) -> Iterator[Item] | None:
    if value.get("role") == "tool":
        return iter([_openai_result(value, "tool_call_id", "content", path)])
    if value.get("type") == "custom" and isinstance(value.get("custom"), dict):
        inner, where = value["custom"], f"{path}.custom"
        if "input" not in inner:
            return iter([_custom_tool(inner, where)])
        identifier, name = as_text(value.get("id"), f"{path}.id"), as_text(inner.get("name"), f"{where}.name")
        return iter([CallItem(path, identifier, name, {"input": inner["input"]}, free_text=True)])
    inner = value.get("function")
    if value.get("type", "function") != "function" or not isinstance(inner, dict):
        return None
    name = as_text(inner.get("name"), f"{path}.function.name")
    if "arguments" in inner:
        identifier = as_text(value.get("id"), f"{path}.id")
        return iter([CallItem(path, identifier, name, parse_arguments(inner["arguments"]))])
    schema = _schema(inner.get("parameters"), f"{path}.function.parameters")
    description = str(inner.get("description") or "")
    return iter([ToolItem(path, name, description, schema, schema_at=".function.parameters")])


def _gemini(value: JsonObject, path: str) -> Iterator[Item] | None:
    declarations = value.get("functionDeclarations", value.get("function_declarations"))
    if declarations is not None:
        listed = declarations if isinstance(declarations, list) else [declarations]
        return iter([_declaration(item, f"{path}.functionDeclarations[{at}]") for at, item in enumerate(listed)])
    if isinstance(value.get("name"), str) and (value.keys() & {"parameters", "parametersJsonSchema", "description"}):
        return iter([_declaration(value, path)])
    call = value.get("functionCall", value.get("function_call"))
    if isinstance(call, dict):
        name, args = as_text(call.get("name"), f"{path}.functionCall.name"), call.get("args") or {}
        signature = value.get("thoughtSignature", value.get("thought_signature"))
        args = as_object(args, f"{path}.functionCall.args")
        signature = None if signature is None else as_text(signature, f"{path}.thoughtSignature")
        return iter([CallItem(path, str(call.get("id") or ""), name, args, signature)])
    answer = value.get("functionResponse", value.get("function_response"))
    return iter([_function_response(answer, path)]) if isinstance(answer, dict) else None


def _declaration(value: Any, path: str) -> ToolItem:
    declaration = as_object(value, path)
    name = as_text(declaration.get("name"), f"{path}.name")
    full = declaration.get("parametersJsonSchema", declaration.get("parameters_json_schema"))
    schema = _schema(full, path) if full is not None else from_openapi(declaration.get("parameters"))
    at = ".parameters" if full is None else ".parametersJsonSchema"
    return ToolItem(path, name, str(declaration.get("description") or ""), schema, schema_at=at)


def _function_response(answer: JsonObject, path: str) -> ResultItem:
    response = as_object(answer.get("response") or {}, f"{path}.functionResponse.response")
    ok = "error" not in response
    value = response.get("output", response.get("result", response)) if ok else response["error"]
    media = []
    for part in as_list(answer.get("parts"), f"{path}.functionResponse.parts"):
        data = part.get("inlineData", part.get("inline_data")) if isinstance(part, dict) else None
        if isinstance(data, dict):
            mime = data.get("mimeType", data.get("mime_type"))
            media.append(Blob(str(mime), content.decode_base64(data.get("data"), f"{path}.functionResponse.parts")))
    name = as_text(answer.get("name"), f"{path}.functionResponse.name")
    return ResultItem(path, str(answer.get("id") or ""), value, ok, tuple(media), name)


def from_openapi(schema: Any) -> JsonObject:
    """The OpenAPI subset of `parameters` as JSON Schema."""
    if not isinstance(schema, dict):
        return {}
    node: JsonObject = {}
    for key, value in schema.items():
        match key:
            case "type" if isinstance(value, str):
                node["type"] = value.lower()
            case "properties" if isinstance(value, dict):
                node["properties"] = {name: from_openapi(item) for name, item in value.items()}
            case "items":
                node["items"] = from_openapi(value)
            case "anyOf" | "any_of" if isinstance(value, list):
                node["anyOf"] = [from_openapi(item) for item in value]
            case "nullable" | "propertyOrdering" | "property_ordering":
                continue
            case "example":
                node["examples"] = [value]
            case _:
                node[_CAMEL.get(str(key), str(key))] = value
    if schema.get("nullable") is True:
        if "type" in node:
            node["type"] = [node["type"], "null"]
        if "anyOf" in node:
            node["anyOf"].append({"type": "null"})
        if isinstance(node.get("enum"), list):
            node["enum"] = [*node["enum"], None]
    return node


_CAMEL = {
    f"{bound}_{what}": f"{bound}{what.capitalize()}"
    for bound in ("min", "max")
    for what in ("items", "length", "properties")
}


def _bedrock(value: JsonObject, path: str) -> Iterator[Item] | None:
    if isinstance(value.get("toolSpec"), dict):
        return iter([_tool_spec(value["toolSpec"], f"{path}.toolSpec")])
    if isinstance(value.get("toolUse"), dict):
        return iter([_tool_use(value["toolUse"], f"{path}.toolUse")])
    if isinstance(value.get("toolResult"), dict):
        return iter([_tool_result(value["toolResult"], f"{path}.toolResult")])
    return None


def _tool_spec(spec: JsonObject, path: str) -> ToolItem:
    wrapper = as_object(spec.get("inputSchema") or {}, f"{path}.inputSchema")
    schema = _schema(wrapper.get("json"), f"{path}.inputSchema.json")
    name, description = as_text(spec.get("name"), f"{path}.name"), str(spec.get("description") or "")
    return ToolItem(path, name, description, schema, schema_at=".inputSchema.json")


def _tool_use(use: JsonObject, path: str) -> CallItem:
    identifier, name = as_text(use.get("toolUseId"), f"{path}.toolUseId"), as_text(use.get("name"), f"{path}.name")
    return CallItem(path, identifier, name, as_object(use.get("input") or {}, f"{path}.input"))


def _tool_result(result: JsonObject, path: str) -> ResultItem:
    identifier = as_text(result.get("toolUseId"), f"{path}.toolUseId")
    blocks = as_list(result.get("content"), f"{path}.content")
    texts, media, lost = _blocks(blocks, f"{path}.content", _bedrock_block)
    whole = blocks[0].get("json") if len(blocks) == 1 else None  # one value stays what it is
    value = "\n".join(texts) if whole is None else whole
    return ResultItem(path, identifier, value, result.get("status") != "error", media, flattened=lost)


def _amazonq(value: JsonObject, path: str) -> Iterator[Item] | None:
    if value.keys() & {"tool_specification", "toolSpecification", "input_schema", "inputSchema"}:
        return iter([_tool_spec(bedrock.from_amazon_q_tool(value), path)])
    if value.keys() & {"tool_use_id", "toolUseId"}:
        if "name" in value:
            return iter([_tool_use(bedrock.from_amazon_q_use(value), path)])
        return iter([_tool_result(bedrock.from_amazon_q_result(value), path)])
    return None


_READERS: dict[Format, Reader] = {
    "anthropic": _anthropic,
    "responses": _responses,
    "chat": _chat,
    "gemini": _gemini,
    "bedrock": _bedrock,
    "amazonq": _amazonq,
}


def as_format(name: str) -> Format:
    """The format of this name; openai means Responses. Raises Failure."""
    wanted = {"openai": "responses", "amazon-q": "amazonq", "claude": "anthropic"}.get(name, name)
    for known in FORMATS:
        if known == wanted:
            return known
    raise Failure.invalid("", f"{name!r} is no format; there are {', '.join(FORMATS)}")
