"""The Anthropic Messages dialect: what Claude Code and the anthropic SDKs speak. Pure."""

from collections.abc import Callable
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
from gemcode.gateway.anthropic_reply import CALL_PREFIX, ERRORS, AnthropicEncoder, error_body
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
    new_id,
)
from gemcode.gateway.history import Answer, History, as_response, reminder
from gemcode.gateway.names import ClientTool, ToolNames, safe_name

_BILLING = "x-anthropic-billing-header:"  # differs in every request, and would keep the prefix from being cached
# Blocks of an answer that tell of the server's own tools: the text beside them holds what they found.
_SERVER_BLOCKS = frozenset({"server_tool_use", "web_search_tool_result", "web_fetch_tool_result", "compaction"}) | {
    "mcp_tool_use",
    "mcp_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "container_upload",
}


class AnthropicDialect:
    name = "anthropic"

    def decode(self, body: JsonObject, resolve: Callable[[str], str]) -> Asked:
        client_model = as_text(body.get("model"), "model")
        model = resolve(client_model)
        declared, offered = read_tools(as_list(body.get("tools"), "tools"))
        names, tools = content.declare(declared)
        search, left_out = content.hosted(offered, tools)
        choice = body.get("tool_choice")
        tool_choice = ToolChoice() if choice is None else _choice(as_object(choice, "tool_choice"), names)
        request = ModelRequest(
            model=model,
            messages=_messages(as_messages(body.get("messages"), "messages"), model),
            system=_system(body.get("system")),
            tools=tools,
            tool_choice=tool_choice,
            generation=_generation(body, model),
        )
        top_k = as_count(body.get("top_k"), "top_k")
        return Asked(
            model=client_model,
            request=request,
            stream=body.get("stream") is True,
            names=names,
            single_call=isinstance(choice, dict) and choice.get("disable_parallel_tool_use") is True,
            search=search,
            left_out=left_out,
            generation={} if top_k is None else {"topK": top_k},
        )

    def encoder(self, asked: Asked) -> AnthropicEncoder:
        return AnthropicEncoder(asked)

    def error(self, failure: Failure) -> ErrorReply:
        status, _ = ERRORS[failure.kind]
        return ErrorReply(status, {**error_body(failure), "request_id": new_id("req_")}, failure.headers)


# ---- request ------------------------------------------------------------------------------------------------------


def _system(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    texts = [_text_of(block, "system") for block in as_list(value, "system")]
    return "\n\n".join(text for text in texts if text and not text.startswith(_BILLING))


def _text_of(block: Any, param: str) -> str:
    return as_text(as_object(block, param).get("text"), f"{param}.text")


def read_tools(tools: list[Any]) -> tuple[list[tuple[ClientTool, str, Any]], list[str]]:
    """The client's own tools, and the types of those that the server is to run."""
    declared, hosted = [], []
    for index, item in enumerate(tools):
        tool = as_object(item, f"tools.{index}")
        kind = tool.get("type")
        if kind in (None, "custom"):
            name = as_text(tool.get("name"), f"tools.{index}.name")
            description = as_text(tool.get("description") or "", f"tools.{index}.description")
            declared.append((ClientTool(name), description, tool.get("input_schema")))
        else:
            hosted.append(as_text(kind, f"tools.{index}.type"))
    return declared, hosted


def _choice(choice: JsonObject, names: ToolNames) -> ToolChoice:
    match choice.get("type"):
        case "auto":
            return ToolChoice()
        case "any":
            return ToolChoice(ChoiceMode.REQUIRED)
        case "none":
            return ToolChoice(ChoiceMode.NONE)
        case "tool":
            return content.one_tool(as_text(choice.get("name"), "tool_choice.name"), names, "tool_choice.name")
    raise Failure.invalid("tool_choice.type", "must be auto, any, none or tool")


def _generation(body: JsonObject, model: str) -> Generation:
    thinking = as_object(body.get("thinking") or {}, "thinking")
    output = as_object(body.get("output_config") or {}, "output_config")
    structured = output.get("format") or body.get("output_format")
    enabled = thinking.get("type") in ("enabled", "adaptive")
    budget = as_count(thinking.get("budget_tokens"), "thinking.budget_tokens") if enabled else None
    return Generation(
        max_output_tokens=content.output_limit(model, as_count(body.get("max_tokens"), "max_tokens")),
        temperature=as_number(body.get("temperature"), "temperature"),
        top_p=as_number(body.get("top_p"), "top_p"),
        stop_sequences=content.stop_sequences(body.get("stop_sequences"), "stop_sequences"),
        thinking_level=content.thinking_level(output.get("effort")),
        thinking_budget=content.thinking_budget(model, budget),
        include_thoughts=enabled and thinking.get("display") != "omitted",
        response_schema=content.response_schema(structured, "output_config.format"),
    )


def _messages(messages: list[Any], model: str) -> tuple[Any, ...]:
    history = History()
    for index, item in enumerate(messages):
        param = f"messages.{index}"
        message = as_object(item, param)
        raw = message.get("content")
        blocks: list[Any] = (
            [{"type": "text", "text": raw}] if isinstance(raw, str) else as_list(raw, f"{param}.content")
        )
        match message.get("role"):
            case "user":
                history.user(read_user_blocks(blocks, f"{param}.content"))
            case "assistant":
                history.model(_model_parts(blocks, model, f"{param}.content"))
            case "system":
                texts = [_text_of(block, f"{param}.content") for block in blocks]
                history.user([reminder(text) for text in texts if text])
            case _:
                raise Failure.invalid(f"{param}.role", "must be user, assistant or system")
    return history.build()


def read_user_blocks(blocks: list[Any], param: str) -> list[UserPart | Answer]:
    parts: list[UserPart | Answer] = []
    for index, item in enumerate(blocks):
        where = f"{param}.{index}"
        block = as_object(item, where)
        match block.get("type"):
            case "text":
                parts.append(Text(as_text(block.get("text"), f"{where}.text")))
            case "image" | "document":
                parts += _media(block, where)
            case "search_result":
                parts += [Text(dump({key: block.get(key) for key in ("title", "source", "content")}))]
            case "tool_result":
                parts.append(_answer(block, where))
            case str() as kind if kind in _SERVER_BLOCKS:
                continue
            case kind:
                raise Failure.invalid(f"{where}.type", f"unknown block type {str(kind)[:60]!r} in a user message")
    return parts


def _media(block: JsonObject, param: str) -> list[UserPart]:
    source = as_object(block.get("source"), f"{param}.source")
    title = [Text(str(block["title"]))] if block.get("title") else []
    match source.get("type"):
        case "base64":
            mime = as_text(source.get("media_type"), f"{param}.source.media_type")
            return [*title, Blob(mime, content.decode_base64(source.get("data"), f"{param}.source.data"))]
        case "url":
            return [*title, content.media_of_url(source.get("url"), f"{param}.source.url")]
        case "text":
            return [*title, Text(as_text(source.get("data"), f"{param}.source.data"))]
        case "content":
            inner = source.get("content")
            inner = [{"type": "text", "text": inner}] if isinstance(inner, str) else as_list(inner, f"{param}.source")
            return [*title, *(part for part in read_user_blocks(inner, param) if not isinstance(part, Answer))]
    raise Failure.invalid(f"{param}.source.type", "must be base64, url, text or content")


def _answer(block: JsonObject, param: str) -> Answer:
    call_id = gemini_id(CALL_PREFIX, as_text(block.get("tool_use_id"), f"{param}.tool_use_id"))
    raw = block.get("content")
    texts: list[str] = [raw] if isinstance(raw, str) else []
    media: list[Blob] = []
    for index, item in enumerate(() if isinstance(raw, str) else as_list(raw, f"{param}.content")):
        inner = as_object(item, f"{param}.content.{index}")
        if inner.get("type") == "text":
            texts.append(as_text(inner.get("text"), f"{param}.content.{index}.text"))
        elif inner.get("type") in ("image", "document"):
            for part in _media(inner, f"{param}.content.{index}"):
                if isinstance(part, Blob):
                    media.append(part)
                else:
                    texts.append(part.text if isinstance(part, Text) else dump(part.raw))
        else:  # never dropped silently: the model sees what it was
            texts.append(dump(inner))
    return Answer(call_id, as_response("\n".join(texts), ok=block.get("is_error") is not True), tuple(media))


def _model_parts(blocks: list[Any], model: str, param: str) -> list[ModelPart]:
    reader = ChannelReader(model)
    parts: list[ModelPart] = []
    for index, item in enumerate(blocks):
        where = f"{param}.{index}"
        block = as_object(item, where)
        match block.get("type"):
            case "text":
                parts += reader.sign(Text(as_text(block.get("text"), f"{where}.text")))
            case "thinking":
                parts += reader.reasoning(block.get("signature"), str(block.get("thinking") or ""))
            case "redacted_thinking":
                parts += reader.reasoning(block.get("data"))
            case "tool_use":
                call_id = gemini_id(CALL_PREFIX, as_text(block.get("id"), f"{where}.id"))
                name = safe_name(as_text(block.get("name"), f"{where}.name"))
                parts += reader.sign(ToolCall(call_id, name, as_object(block.get("input") or {}, f"{where}.input")))
            case str() as kind if kind in _SERVER_BLOCKS:
                continue
            case kind:
                raise Failure.invalid(f"{where}.type", f"unknown block type {str(kind)[:60]!r} in an assistant message")
    return [*parts, *reader.flush()]
