"""The Bedrock Converse dialect, and the Amazon Q structures that it is the public form of. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from gemcode.agent.messages import (
    Blob,
    ChoiceMode,
    Generation,
    JsonObject,
    ModelPart,
    ModelRequest,
    Text,
    ToolCall,
    ToolChoice,
    UserPart,
)
from gemcode.gateway import content
from gemcode.gateway.bedrock_reply import CALL_PREFIX, ERRORS, BedrockEncoder
from gemcode.gateway.dialect import (
    Asked,
    ChannelReader,
    ErrorReply,
    Failure,
    as_count,
    as_list,
    as_messages,
    as_number,
    as_object,
    as_text,
    dump,
    gemini_id,
    load,
)
from gemcode.gateway.history import Answer, History, as_response
from gemcode.gateway.names import ClientTool, ToolNames, safe_name

_IMAGE_TYPES = {"jpg": "image/jpeg"}
_DOCUMENT_TYPES = {
    "pdf": "application/pdf",
    "csv": "text/csv",
    "html": "text/html",
    "txt": "text/plain",
    "md": "text/markdown",
    "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


class BedrockDialect:
    """The model comes with the path: the server puts it into the body as `modelId`, and `stream` by the operation."""

    name = "bedrock"

    def decode(self, body: JsonObject, resolve: Callable[[str], str]) -> Asked:
        client_model = as_text(body.get("modelId"), "modelId")
        model = resolve(client_model)
        config = as_object(body.get("toolConfig") or {}, "toolConfig")
        declared, hosted = read_tools(as_list(config.get("tools"), "toolConfig.tools"))
        names, tools = content.declare(declared)
        request = ModelRequest(
            model=model,
            messages=_messages(as_messages(body.get("messages"), "messages"), model),
            system=_system(as_list(body.get("system"), "system")),
            tools=tools,
            tool_choice=_choice(as_object(config.get("toolChoice") or {}, "toolConfig.toolChoice"), names),
            generation=_generation(body, model),
        )
        return Asked(
            model=client_model,
            request=request,
            stream=body.get("stream") is True,
            names=names,
            left_out=tuple(hosted),
        )

    def encoder(self, asked: Asked) -> BedrockEncoder:
        return BedrockEncoder(asked)

    def error(self, failure: Failure) -> ErrorReply:
        status, name = ERRORS[failure.kind]
        return ErrorReply(status, {"message": failure.message}, {"x-amzn-errortype": name, **failure.headers})


# ---- request ------------------------------------------------------------------------------------------------------


def read_tools(tools: list[Any]) -> tuple[list[tuple[ClientTool, str, Any]], list[str]]:
    """The tools of a toolConfig, and the names of those that the service is to run; cache points are passed over."""
    declared, hosted = [], []
    for index, item in enumerate(tools):
        param = f"toolConfig.tools.{index}"
        tool = as_object(item, param)
        if "toolSpec" in tool:
            spec = as_object(tool["toolSpec"], f"{param}.toolSpec")
            schema = as_object(spec.get("inputSchema") or {}, f"{param}.toolSpec.inputSchema").get("json")
            name = as_text(spec.get("name"), f"{param}.toolSpec.name")
            declared.append((ClientTool(name), str(spec.get("description") or ""), schema))
        elif "systemTool" in tool:
            system = as_object(tool["systemTool"], f"{param}.systemTool")
            hosted.append(as_text(system.get("name"), f"{param}.systemTool.name"))
    return declared, hosted


def _choice(choice: JsonObject, names: ToolNames) -> ToolChoice:
    if "any" in choice:
        return ToolChoice(ChoiceMode.REQUIRED)
    if "tool" in choice:
        tool = as_object(choice["tool"], "toolConfig.toolChoice.tool")
        param = "toolConfig.toolChoice.tool.name"
        return content.one_tool(as_text(tool.get("name"), param), names, param)
    return ToolChoice()


def _generation(body: JsonObject, model: str) -> Generation:
    config = as_object(body.get("inferenceConfig") or {}, "inferenceConfig")
    output = as_object(body.get("outputConfig") or {}, "outputConfig")
    extra = as_object(body.get("additionalModelRequestFields") or {}, "additionalModelRequestFields")
    thinking = extra.get("thinking") or extra.get("reasoning_config")
    thinking = thinking if isinstance(thinking, dict) and thinking.get("type") in ("enabled", "adaptive") else {}
    budget = as_count(thinking.get("budget_tokens"), "additionalModelRequestFields.thinking.budget_tokens")
    return Generation(
        max_output_tokens=content.output_limit(model, as_count(config.get("maxTokens"), "inferenceConfig.maxTokens")),
        temperature=as_number(config.get("temperature"), "inferenceConfig.temperature"),
        top_p=as_number(config.get("topP"), "inferenceConfig.topP"),
        stop_sequences=content.stop_sequences(config.get("stopSequences"), "inferenceConfig.stopSequences"),
        thinking_level=content.thinking_level(output.get("effort")),
        thinking_budget=content.thinking_budget(model, budget),
        include_thoughts=bool(thinking),
        response_schema=_response_schema(output.get("textFormat"), "outputConfig.textFormat"),
    )


def _response_schema(value: Any, param: str) -> JsonObject | None:
    """The schema of a structured answer is JSON text here."""
    if value is None:
        return None
    structure = as_object(as_object(value, param).get("structure"), f"{param}.structure")
    text = as_object(structure.get("jsonSchema"), f"{param}.structure.jsonSchema").get("schema")
    try:
        schema = load(as_text(text, f"{param}.structure.jsonSchema.schema"))
    except (ValueError, RecursionError):
        raise Failure.invalid(f"{param}.structure.jsonSchema.schema", "must be JSON") from None
    return content.response_schema({"type": "json_schema", "schema": schema}, param)


def _system(blocks: list[Any]) -> str:
    texts = [as_object(block, "system").get("text") for block in blocks]
    return "\n\n".join(text for text in texts if isinstance(text, str) and text)


def _messages(messages: list[Any], model: str) -> tuple[Any, ...]:
    history = History()
    for index, item in enumerate(messages):
        param = f"messages.{index}"
        message = as_object(item, param)
        blocks = [as_object(block, f"{param}.content") for block in as_list(message.get("content"), f"{param}.content")]
        match message.get("role"):
            case "user":
                parts = [part for block in blocks for part in _user_parts(block, f"{param}.content")]
                history.user(parts)
            case "assistant":
                history.model(_model_parts(blocks, model, f"{param}.content"))
            case _:
                raise Failure.invalid(f"{param}.role", "must be user or assistant")
    return history.build()


def _user_parts(block: JsonObject, param: str) -> list[UserPart | Answer]:
    if "toolResult" in block:
        return [_answer(as_object(block["toolResult"], f"{param}.toolResult"), f"{param}.toolResult")]
    return [*_content_part(block, param)]


def _content_part(block: JsonObject, param: str) -> list[UserPart]:
    if "text" in block:
        return [Text(as_text(block["text"], f"{param}.text"))]
    if "image" in block:
        return [read_image(as_object(block["image"], f"{param}.image"), f"{param}.image")]
    if "document" in block:
        return _document(as_object(block["document"], f"{param}.document"), f"{param}.document")
    for name in ("video", "audio"):
        if name in block:
            kind = str(as_object(block[name], f"{param}.{name}").get("format"))
            return [_blob(block[name], f"{name}/{kind}", f"{param}.{name}")]
    if "cachePoint" in block:
        return []
    if "searchResult" in block:
        return [Text(dump(block["searchResult"]))]
    if "guardContent" in block:
        inner = as_object(block["guardContent"], f"{param}.guardContent").get("text")
        return [Text(as_text(as_object(inner, f"{param}.guardContent.text").get("text"), f"{param}.guardContent.text"))]
    raise Failure.invalid(param, f"unknown content block {', '.join(sorted(block))[:60]!r}")


def read_image(image: JsonObject, param: str) -> Blob:
    kind = str(image.get("format"))
    return _blob(image, _IMAGE_TYPES.get(kind, f"image/{kind}"), param)


def _blob(value: Any, mime_type: str, param: str) -> Blob:
    source = as_object(as_object(value, param).get("source"), f"{param}.source")
    return Blob(mime_type, content.decode_base64(source.get("bytes"), f"{param}.source.bytes"))


def _document(document: JsonObject, param: str) -> list[UserPart]:
    source = as_object(document.get("source"), f"{param}.source")
    title: list[UserPart] = [Text(str(document["name"]))] if document.get("name") else []
    if "text" in source:
        return [*title, Text(as_text(source["text"], f"{param}.source.text"))]
    if "content" in source:
        return [*title, *_texts(source, f"{param}.source")]
    mime_type = _DOCUMENT_TYPES.get(str(document.get("format")), "application/octet-stream")
    return [*title, _blob(document, mime_type, param)]


def _texts(holder: Any, param: str) -> list[Text]:
    """The texts in a list of content that knows no other kind."""
    blocks = as_list(as_object(holder, param).get("content"), f"{param}.content")
    return [Text(as_text(as_object(block, param).get("text"), f"{param}.content.text")) for block in blocks]


def _answer(result: JsonObject, param: str) -> Answer:
    call_id = gemini_id(CALL_PREFIX, as_text(result.get("toolUseId"), f"{param}.toolUseId"))
    ok = result.get("status") != "error"
    blocks = [as_object(block, f"{param}.content") for block in as_list(result.get("content"), f"{param}.content")]
    if ok and len(blocks) == 1 and "json" in blocks[0]:
        return Answer(call_id, {"output": blocks[0]["json"]})
    texts: list[str] = []
    media: list[Blob] = []
    for block in blocks:
        if "json" in block:
            texts.append(dump(block["json"]))
            continue
        try:
            parts = _content_part(block, f"{param}.content")
        except Failure:
            texts.append(dump(block))  # never dropped silently: the model sees what it was
            continue
        texts += [part.text for part in parts if isinstance(part, Text)]
        media += [part for part in parts if isinstance(part, Blob)]
    return Answer(call_id, as_response("\n".join(texts), ok=ok), tuple(media))


def _model_parts(blocks: list[JsonObject], model: str, param: str) -> list[ModelPart]:
    reader = ChannelReader(model)
    parts: list[ModelPart] = []
    for block in blocks:
        if "text" in block:
            parts += reader.sign(Text(as_text(block["text"], f"{param}.text")))
        elif "reasoningContent" in block:
            reasoning = as_object(block["reasoningContent"], f"{param}.reasoningContent").get("reasoningText")
            reasoning = reasoning if isinstance(reasoning, dict) else {}
            parts += reader.reasoning(reasoning.get("signature"), str(reasoning.get("text") or ""))
        elif "toolUse" in block:
            use = as_object(block["toolUse"], f"{param}.toolUse")
            call_id = gemini_id(CALL_PREFIX, as_text(use.get("toolUseId"), f"{param}.toolUse.toolUseId"))
            name = safe_name(as_text(use.get("name"), f"{param}.toolUse.name"))
            parts += reader.sign(ToolCall(call_id, name, as_object(use.get("input") or {}, f"{param}.toolUse.input")))
        elif "citationsContent" in block:
            for text in _texts(block["citationsContent"], f"{param}.citationsContent"):
                parts += reader.sign(text)
        elif "cachePoint" not in block:
            raise Failure.invalid(param, f"unknown content block {', '.join(sorted(block))[:60]!r}")
    return [*parts, *reader.flush()]


# ---- Amazon Q -----------------------------------------------------------------------------------------------------

_NUMBERS = frozenset({"PosInt", "NegInt", "Float"})


def document_to_json(document: Any) -> Any:
    """A Document in its tagged form ({"Object": …}) as plain JSON; plain JSON stays as it is."""
    try:
        return _untag(document)
    except ValueError:
        return document


def json_to_document(value: Any) -> Any:
    """Plain JSON as a tagged Document."""
    if value is None:
        return "Null"
    if isinstance(value, bool):
        return {"Bool": value}
    if isinstance(value, int):
        return {"Number": {"PosInt" if value >= 0 else "NegInt": value}}
    if isinstance(value, float):
        return {"Number": {"Float": value}}
    if isinstance(value, str):
        return {"String": value}
    if isinstance(value, Mapping):
        return {"Object": {key: json_to_document(item) for key, item in value.items()}}
    return {"Array": [json_to_document(item) for item in value]}


def _untag(document: Any) -> Any:
    """Raises ValueError unless it is tagged throughout: {"String": "x"} could also be someone's object."""
    if document == "Null":
        return None
    if not isinstance(document, dict) or len(document) != 1:
        raise ValueError("not tagged")
    ((tag, value),) = document.items()
    match tag, value:
        case "Object", dict():
            return {key: _untag(item) for key, item in value.items()}
        case "Array", list():
            return [_untag(item) for item in value]
        case ("String", str()) | ("Bool", bool()):
            return value
        case "Number", dict() if len(value) == 1 and value.keys() <= _NUMBERS:
            return next(iter(value.values()))
    raise ValueError("not tagged")


def _field(value: JsonObject, name: str) -> Any:
    """Amazon Q's own code says tool_use_id, its wire toolUseId."""
    head, *rest = name.split("_")
    return value.get(name, value.get(head + "".join(word.capitalize() for word in rest)))


def from_amazon_q_tool(specification: JsonObject) -> JsonObject:
    """ToolSpecification → toolSpec."""
    inner = _field(specification, "tool_specification")
    spec = as_object(inner if inner is not None else specification, "ToolSpecification")
    schema = _field(spec, "input_schema")
    if isinstance(schema, dict) and "json" in schema:
        schema = schema["json"]
    name = as_text(spec.get("name"), "ToolSpecification.name")
    return {
        "name": name,
        "description": str(spec.get("description") or ""),
        "inputSchema": {"json": document_to_json(schema if schema is not None else {})},
    }


def to_amazon_q_tool(spec: JsonObject) -> JsonObject:
    """toolSpec → ToolSpecification."""
    schema = as_object(spec.get("inputSchema") or {}, "inputSchema").get("json")
    document = json_to_document(schema if schema is not None else {})
    return {"name": spec["name"], "description": spec.get("description", ""), "input_schema": {"json": document}}


def from_amazon_q_use(use: JsonObject) -> JsonObject:
    """ToolUse → toolUse."""
    arguments = document_to_json(use.get("input", {}))
    return {
        "toolUseId": as_text(_field(use, "tool_use_id"), "ToolUse.tool_use_id"),
        "name": as_text(use.get("name"), "ToolUse.name"),
        "input": as_object(arguments, "ToolUse.input"),
    }


def to_amazon_q_use(use: JsonObject) -> JsonObject:
    return {"tool_use_id": use["toolUseId"], "name": use["name"], "input": json_to_document(use["input"])}


def from_amazon_q_result(result: JsonObject) -> JsonObject:
    """ToolResult → toolResult."""
    blocks: list[JsonObject] = []
    for item in as_list(result.get("content"), "ToolResult.content"):
        block = as_object(item, "ToolResult.content")
        if "Text" in block or "text" in block:
            blocks.append({"text": as_text(block.get("Text", block.get("text")), "ToolResult.content.Text")})
        else:
            blocks.append({"json": document_to_json(block.get("Json", block.get("json")))})
    failed = str(result.get("status", "Success")).lower() == "error"
    call_id = as_text(_field(result, "tool_use_id"), "ToolResult.tool_use_id")
    return {"toolUseId": call_id, "content": blocks, "status": "error" if failed else "success"}


def to_amazon_q_result(result: JsonObject) -> JsonObject:
    blocks = [
        {"Json": json_to_document(block["json"])} if "json" in block else {"Text": block.get("text", dump(block))}
        for block in result["content"]
    ]
    status = "Error" if result.get("status") == "error" else "Success"
    return {"tool_use_id": result["toolUseId"], "content": blocks, "status": status}
