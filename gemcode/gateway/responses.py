"""The OpenAI Responses dialect: what Codex and the openai SDKs speak. Pure; stored conversations are joined before."""

from collections.abc import Callable, Sequence
from typing import Any

from gemcode.agent.messages import (
    Blob,
    ChoiceMode,
    Generation,
    JsonObject,
    ModelRequest,
    Text,
    ToolCall,
    ToolChoice,
    UserPart,
)
from gemcode.gateway import content
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
    parse_arguments,
)
from gemcode.gateway.history import Answer, History, as_response, reminder
from gemcode.gateway.names import ClientTool, ToolNames
from gemcode.gateway.openai_error import error_reply
from gemcode.gateway.responses_reply import CALL_PREFIX, ResponsesEncoder

FREE_TEXT_SCHEMA: JsonObject = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
# Records of the server's own tools: the text beside them holds what they found.
_SERVER_ITEMS = frozenset({"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call"}) | {
    "computer_call",
    "mcp_call",
    "mcp_list_tools",
    "mcp_approval_request",
    "mcp_approval_response",
    "tool_search_call",
    "tool_search_output",
    "compaction",
}
_ECHOED = (
    *("instructions", "max_output_tokens", "metadata", "parallel_tool_calls", "previous_response_id", "reasoning"),
    *("store", "temperature", "text", "tool_choice", "tools", "top_p", "truncation", "user", "conversation"),
)

Declared = list[tuple[ClientTool, str, Any]]


class ResponsesDialect:
    name = "responses"

    def decode(self, body: JsonObject, resolve: Callable[[str], str]) -> Asked:
        client_model = as_text(body.get("model"), "model")
        model = resolve(client_model)
        if body.get("prompt") is not None:
            raise Failure.invalid("prompt", "stored prompts are not served; send instructions and input")
        items: list[JsonObject] = as_messages(input_items(body.get("input")), "input")
        offered = as_list(body.get("tools"), "tools")
        for item in items:
            if item.get("type") == "additional_tools":
                offered = [*offered, *as_list(item.get("tools"), "input.tools")]
        declared, hosted = read_tools(offered)
        names, tools = content.declare(declared)
        search, left_out = content.hosted(hosted, tools)
        choice = read_choice(body.get("tool_choice"), names)
        system, rest = _split_system(items)
        instructions = as_text(body.get("instructions") or "", "instructions")
        request = ModelRequest(
            model=model,
            messages=_messages(rest, model),
            system="\n\n".join(text for text in (instructions, *system) if text),
            tools=tools,
            tool_choice=choice,
            generation=_generation(body, model),
        )
        return Asked(
            model=client_model,
            request=request,
            stream=body.get("stream") is True,
            names=names,
            single_call=body.get("parallel_tool_calls") is False,
            search=search,
            left_out=left_out,
            echo={key: body[key] for key in _ECHOED if key in body},
        )

    def encoder(self, asked: Asked) -> ResponsesEncoder:
        return ResponsesEncoder(asked)

    def error(self, failure: Failure) -> ErrorReply:
        return error_reply(failure)


def input_items(value: Any) -> list[JsonObject]:
    """The input as items; a bare string is what the user says."""
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    return [as_object(item, f"input[{index}]") for index, item in enumerate(as_list(value, "input"))]


# ---- tools --------------------------------------------------------------------------------------------------------


def read_tools(tools: Sequence[Any], namespace: str = "") -> tuple[Declared, list[str]]:
    """The client's own tools, flat, and the types of those that the server is to run."""
    declared: Declared = []
    hosted: list[str] = []
    for index, item in enumerate(tools):
        param = f"tools[{index}]"
        tool = as_object(item, param)
        match tool.get("type"):
            case "function":
                inner = tool.get("function") if isinstance(tool.get("function"), dict) else tool
                declared.append(_function(as_object(inner, param), namespace, param))
            case "custom":
                inner = tool.get("custom") if isinstance(tool.get("custom"), dict) else tool
                declared.append(_custom(as_object(inner, param), namespace, param))
            case "namespace":
                name = as_text(tool.get("name"), f"{param}.name")
                members, others = read_tools(as_list(tool.get("tools"), f"{param}.tools"), name)
                declared += members
                hosted += others
            case kind:
                hosted.append(as_text(kind, f"{param}.type"))
    return declared, hosted


def _function(tool: JsonObject, namespace: str, param: str) -> tuple[ClientTool, str, Any]:
    name = as_text(tool.get("name"), f"{param}.name")
    return ClientTool(name, namespace), str(tool.get("description") or ""), tool.get("parameters")


def _custom(tool: JsonObject, namespace: str, param: str) -> tuple[ClientTool, str, Any]:
    """Free text becomes one string; what the text must look like moves into the description."""
    name = as_text(tool.get("name"), f"{param}.name")
    description = str(tool.get("description") or "") + grammar_words(tool.get("format"))
    return ClientTool(name, namespace, "custom"), description, FREE_TEXT_SCHEMA


def grammar_words(form: Any) -> str:
    """The format of a custom tool, for those who know none."""
    grammar = form.get("grammar", form) if isinstance(form, dict) and form.get("type") == "grammar" else None
    if not isinstance(grammar, dict) or not grammar.get("definition"):
        return ""
    return f"\n\nThe input follows this {grammar.get('syntax', '')} grammar:\n{grammar['definition']}"


def read_choice(value: Any, names: ToolNames) -> ToolChoice:
    match value:
        case None | "auto":
            return ToolChoice()
        case "required":
            return ToolChoice(ChoiceMode.REQUIRED)
        case "none":
            return ToolChoice(ChoiceMode.NONE)
        case {"type": "function" | "custom"}:
            return ToolChoice(ChoiceMode.REQUIRED, (_named(value, names),))
        case {"type": "allowed_tools"}:
            inner = as_object(value.get("allowed_tools", value), "tool_choice")
            listed = [as_object(tool, "tool_choice.tools") for tool in as_list(inner.get("tools"), "tool_choice.tools")]
            own = tuple(_named(tool, names) for tool in listed if tool.get("type") in ("function", "custom"))
            return ToolChoice(ChoiceMode.REQUIRED if inner.get("mode") == "required" else ChoiceMode.AUTO, own)
        case {"type": str()}:
            return ToolChoice()  # a hosted tool: the model decides
    raise Failure.invalid("tool_choice", "must be auto, required, none or name a tool")


def _named(choice: JsonObject, names: ToolNames) -> str:
    inner = choice.get("function") or choice.get("custom") or choice
    inner = as_object(inner, "tool_choice")
    name = as_text(inner.get("name"), "tool_choice.name")
    namespace = inner.get("namespace")
    for gemini_name, tool in names.tools.items():
        if tool.name == name and (not isinstance(namespace, str) or tool.namespace == namespace):
            return gemini_name
    raise Failure.invalid("tool_choice", f"no tool {name!r} is declared")


# ---- conversation -------------------------------------------------------------------------------------------------


def _generation(body: JsonObject, model: str) -> Generation:
    reasoning = as_object(body.get("reasoning") or {}, "reasoning")
    text = as_object(body.get("text") or {}, "text")
    return Generation(
        max_output_tokens=content.output_limit(model, as_count(body.get("max_output_tokens"), "max_output_tokens")),
        temperature=as_number(body.get("temperature"), "temperature"),
        top_p=as_number(body.get("top_p"), "top_p"),
        thinking_level=content.thinking_level(reasoning.get("effort")),
        include_thoughts=bool(reasoning.get("summary") or reasoning.get("generate_summary")),
        response_schema=content.response_schema(text.get("format"), "text.format"),
    )


def _split_system(items: Sequence[JsonObject]) -> tuple[list[str], list[JsonObject]]:
    """Words of the operator at the head are the system instruction; Codex sends its whole prompt that way."""
    texts: list[str] = []
    for index, item in enumerate(items):
        if item.get("type") == "additional_tools":
            continue
        if item.get("type", "message") != "message" or item.get("role") not in ("system", "developer"):
            return texts, [item for item in items[index:] if item.get("type") != "additional_tools"]
        texts += [part.text for part in _user_parts(item.get("content"), f"input[{index}]") if isinstance(part, Text)]
    return texts, []


def _messages(items: Sequence[JsonObject], model: str) -> tuple[Any, ...]:
    history = History()
    reader = ChannelReader(model)
    for index, item in enumerate(items):
        param = f"input[{index}]"
        match item.get("type", "message"):
            case "message":
                _message(item, history, reader, param)
            case "reasoning":
                history.model(reader.reasoning(item.get("encrypted_content"), _summary(item)))
            case "function_call" | "custom_tool_call":
                history.model(reader.sign(_call(item, param)))
            case "function_call_output" | "custom_tool_call_output" | "local_shell_call_output":
                history.model(reader.flush())
                history.user([_answer(item, param)])
            case str() as kind if kind in _SERVER_ITEMS:
                continue
            case kind:
                raise Failure.invalid(f"{param}.type", f"unknown item type {str(kind)[:60]!r}")
    history.model(reader.flush())
    return history.build()


def _message(item: JsonObject, history: History, reader: ChannelReader, param: str) -> None:
    parts = _user_parts(item.get("content"), f"{param}.content")
    match item.get("role"):
        case "assistant":
            for part in parts:
                history.model(reader.sign(part) if isinstance(part, Text) else [part])
            return
        case "system" | "developer":
            said: list[UserPart] = [reminder(part.text) if isinstance(part, Text) else part for part in parts]
        case "user":
            said = parts
        case _:
            raise Failure.invalid(f"{param}.role", "must be user, assistant, system or developer")
    history.model(reader.flush())
    history.user(said)


def _user_parts(value: Any, param: str) -> list[UserPart]:
    if value is None or isinstance(value, str):
        return [Text(value or "")]
    return [read_part(as_object(item, param), param) for item in as_list(value, param)]


def read_part(part: JsonObject, param: str) -> UserPart:
    """A piece of content, in the spelling of Responses or of Chat Completions."""
    match part.get("type"):
        case "input_text" | "output_text" | "text" | "summary_text":
            return Text(as_text(part.get("text"), f"{param}.text"))
        case "refusal":
            return Text(as_text(part.get("refusal"), f"{param}.refusal"))
        case "input_image" | "image_url":
            url = part.get("image_url")
            return content.media_of_url(url.get("url") if isinstance(url, dict) else url, f"{param}.image_url")
        case "input_file" | "file":
            file = part.get("file") if isinstance(part.get("file"), dict) else part
            return _file(as_object(file, param), param)
        case "input_audio":
            audio = as_object(part.get("input_audio"), f"{param}.input_audio")
            data = content.decode_base64(audio.get("data"), f"{param}.input_audio.data")
            return Blob(f"audio/{audio.get('format') or 'wav'}", data)
        case kind:
            raise Failure.invalid(f"{param}.type", f"unknown content type {str(kind)[:60]!r}")


def _file(file: JsonObject, param: str) -> UserPart:
    """Its data is a data: URL, or bare base64 beside a name."""
    data = file.get("file_data")
    if isinstance(data, str) and data and not data.startswith("data:"):
        return Blob(content.media_type(str(file.get("filename"))), content.decode_base64(data, f"{param}.file_data"))
    return content.media_of_url(data or file.get("file_url"), f"{param}.file_data")


def _summary(item: JsonObject) -> str:
    parts = item.get("summary")
    texts = [part.get("text") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return "\n\n".join(text for text in texts if isinstance(text, str))


def _call(item: JsonObject, param: str) -> ToolCall:
    namespace = item.get("namespace")
    kind = "custom" if item["type"] == "custom_tool_call" else "function"
    name = as_text(item.get("name"), f"{param}.name")
    tool = ClientTool(
        name, namespace if isinstance(namespace, str) else "", "custom" if kind == "custom" else "function"
    )
    call_id = gemini_id(CALL_PREFIX, as_text(item.get("call_id"), f"{param}.call_id"))
    if kind == "custom":
        return ToolCall(call_id, tool.gemini_name, {"input": as_text(item.get("input"), f"{param}.input")})
    return ToolCall(call_id, tool.gemini_name, parse_arguments(item.get("arguments")))


def _answer(item: JsonObject, param: str) -> Answer:
    call_id = gemini_id(CALL_PREFIX, as_text(item.get("call_id"), f"{param}.call_id"))
    return read_answer(call_id, item.get("output"), f"{param}.output")


def read_answer(call_id: str, output: Any, param: str) -> Answer:
    """A result: text, or a list of text and images. These dialects have no flag for a failure."""
    if isinstance(output, str) or output is None:
        return Answer(call_id, as_response(output or "", ok=True))
    if isinstance(output, dict):
        return Answer(call_id, {"output": output})
    texts: list[str] = []
    media: list[Blob] = []
    for item in as_list(output, param):
        part = read_part(as_object(item, param), param)
        if isinstance(part, Blob):
            media.append(part)
        else:
            texts.append(part.text if isinstance(part, Text) else dump(part.raw))
    return Answer(call_id, as_response("\n".join(texts), ok=True), tuple(media))
