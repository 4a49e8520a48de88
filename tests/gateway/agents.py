"""The official SDKs as small agents: each asks, runs the calls that come back, answers them, until a text ends it.

One shape for all of them, so that one test holds for every SDK; what goes over HTTP is the SDK's own.
"""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import anthropic
import boto3
import openai
from botocore.config import Config
from google import genai
from google.genai import types

from tests.gateway.support import MODEL, TOKEN

PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489")


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    schema: dict[str, Any]
    run: Callable[[dict[str, Any]], "Outcome"]
    description: str = "does it"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a tool gives back."""

    text: str = ""
    failed: bool = False
    image: bytes | None = None


@dataclass(slots=True)
class Run:
    """What one agent run saw."""

    text: str = ""
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    steps: int = 0


Choice = str  # auto, required, none, or the name of a tool


class Agent(Protocol):
    def ask(self, prompt: str, tools: list[Tool], choice: Choice = "auto", *, stream: bool = False) -> Run: ...


def _invoke(tools: list[Tool], run: Run, name: str, arguments: dict[str, Any]) -> Outcome:
    run.calls.append((name, arguments))
    return next(tool for tool in tools if tool.name == name).run(arguments)


class AnthropicAgent:
    """Keeps its conversation between questions, as every agent here does."""

    def __init__(self, url: str) -> None:
        self._client = anthropic.Anthropic(base_url=url, api_key=TOKEN, max_retries=0)
        self._messages: list[Any] = []

    def ask(self, prompt: str, tools: list[Tool], choice: Choice = "auto", *, stream: bool = False) -> Run:
        run = Run()
        self._messages.append({"role": "user", "content": prompt})
        named = {"auto": {"type": "auto"}, "required": {"type": "any"}, "none": {"type": "none"}}
        while True:
            request: dict[str, Any] = {"model": MODEL, "max_tokens": 2000, "messages": self._messages}
            if tools:
                listed = [{"name": t.name, "description": t.description, "input_schema": t.schema} for t in tools]
                request |= {"tools": listed, "tool_choice": named.get(choice, {"type": "tool", "name": choice})}
            run.steps += 1
            if stream:
                with self._client.messages.stream(**request) as events:
                    streamed = "".join(events.text_stream)
                    message = events.get_final_message()
                assert streamed == "".join(block.text for block in message.content if block.type == "text")
            else:
                message = self._client.messages.create(**request)
            self._messages.append({"role": "assistant", "content": message.content})
            run.text += "".join(block.text for block in message.content if block.type == "text")
            uses = [block for block in message.content if block.type == "tool_use"]
            assert (message.stop_reason == "tool_use") == bool(uses)
            if not uses:
                return run
            results = [self._result(use.id, _invoke(tools, run, use.name, use.input)) for use in uses]
            self._messages.append({"role": "user", "content": results})
            choice = "auto"

    def _result(self, call_id: str, outcome: Outcome) -> dict[str, Any]:
        blocks: list[Any] = [{"type": "text", "text": outcome.text}]
        if outcome.image:
            data = base64.b64encode(outcome.image).decode()
            blocks.append({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}})
        return {"type": "tool_result", "tool_use_id": call_id, "content": blocks, "is_error": outcome.failed}


def _data_url(image: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(image).decode()}"


class ResponsesAgent:
    def __init__(self, url: str) -> None:
        self._client = openai.OpenAI(base_url=f"{url}/v1", api_key=TOKEN, max_retries=0)
        self._items: list[Any] = []

    def ask(self, prompt: str, tools: list[Tool], choice: Choice = "auto", *, stream: bool = False) -> Run:
        run = Run()
        self._items.append({"role": "user", "content": prompt})
        while True:
            request: dict[str, Any] = {"model": MODEL, "input": self._items, "store": False}
            if tools:
                request["tools"] = [
                    {
                        "type": "function",
                        "name": t.name,
                        "description": t.description,
                        "parameters": t.schema,
                        "strict": False,
                    }
                    for t in tools
                ]
                plain = choice in ("auto", "required", "none")
                request["tool_choice"] = choice if plain else {"type": "function", "name": choice}
            run.steps += 1
            if stream:
                with self._client.responses.stream(**request) as events:
                    streamed = "".join(event.delta for event in events if event.type == "response.output_text.delta")
                    response = events.get_final_response()
                assert streamed == response.output_text
            else:
                response = self._client.responses.create(**request)
            assert response.status == "completed"
            self._items += [
                item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in response.output
            ]
            run.text += response.output_text
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                return run
            for call in calls:
                outcome = _invoke(tools, run, call.name, json.loads(call.arguments))
                output: Any = outcome.text
                if outcome.image:
                    image = {"type": "input_image", "image_url": _data_url(outcome.image)}
                    output = [{"type": "input_text", "text": outcome.text}, image]
                self._items.append({"type": "function_call_output", "call_id": call.call_id, "output": output})
            choice = "auto"


class ChatAgent:
    def __init__(self, url: str) -> None:
        self._client = openai.OpenAI(base_url=f"{url}/v1", api_key=TOKEN, max_retries=0)
        self._messages: list[Any] = [{"role": "system", "content": "Be short."}]

    def ask(self, prompt: str, tools: list[Tool], choice: Choice = "auto", *, stream: bool = False) -> Run:
        run = Run()
        self._messages.append({"role": "user", "content": prompt})
        while True:
            request: dict[str, Any] = {"model": MODEL, "messages": self._messages}
            if tools:
                inner = [{"name": t.name, "description": t.description, "parameters": t.schema} for t in tools]
                request["tools"] = [{"type": "function", "function": function} for function in inner]
                plain = choice in ("auto", "required", "none")
                request["tool_choice"] = choice if plain else {"type": "function", "function": {"name": choice}}
            run.steps += 1
            if stream:
                with self._client.chat.completions.stream(**request) as events:
                    for _ in events:
                        pass
                    message = events.get_final_completion().choices[0].message
            else:
                message = self._client.chat.completions.create(**request).choices[0].message
            calls = message.tool_calls or []
            # A client of this kind knows only the fields of its own protocol.
            kept: dict[str, Any] = {"role": "assistant", "content": message.content}
            if calls:
                kept["tool_calls"] = [
                    {
                        "id": c.id,
                        "type": "function",
                        "function": {"name": c.function.name, "arguments": c.function.arguments},
                    }
                    for c in calls
                ]
            self._messages.append(kept)
            run.text += message.content or ""
            if not calls:
                return run
            for call in calls:
                outcome = _invoke(tools, run, call.function.name, json.loads(call.function.arguments))
                content: Any = outcome.text
                if outcome.image:
                    image = {"type": "image_url", "image_url": {"url": _data_url(outcome.image)}}
                    content = [{"type": "text", "text": outcome.text}, image]
                self._messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
            choice = "auto"


class BedrockAgent:
    def __init__(self, url: str) -> None:
        self._client = boto3.client(
            "bedrock-runtime",
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id=TOKEN,
            aws_secret_access_key="unused",
            config=Config(retries={"total_max_attempts": 1}),
        )
        self._messages: list[Any] = []

    def ask(self, prompt: str, tools: list[Tool], choice: Choice = "auto", *, stream: bool = False) -> Run:
        run = Run()
        self._messages.append({"role": "user", "content": [{"text": prompt}]})
        while True:
            request: dict[str, Any] = {"modelId": MODEL, "messages": self._messages}
            if tools and choice != "none":
                specs = [
                    {"toolSpec": {"name": t.name, "description": t.description, "inputSchema": {"json": t.schema}}}
                    for t in tools
                ]
                form = {"auto": {"auto": {}}, "required": {"any": {}}}.get(choice, {"tool": {"name": choice}})
                request["toolConfig"] = {"tools": specs, "toolChoice": form}
            run.steps += 1
            message = self._stream(request) if stream else self._client.converse(**request)["output"]["message"]
            self._messages.append(message)
            run.text += "".join(block.get("text", "") for block in message["content"])
            uses = [block["toolUse"] for block in message["content"] if "toolUse" in block]
            if not uses:
                return run
            results = []
            for use in uses:
                outcome = _invoke(tools, run, use["name"], use["input"])
                blocks: list[Any] = [{"text": outcome.text}]
                if outcome.image:
                    blocks.append({"image": {"format": "png", "source": {"bytes": outcome.image}}})
                status = "error" if outcome.failed else "success"
                results.append({"toolResult": {"toolUseId": use["toolUseId"], "content": blocks, "status": status}})
            self._messages.append({"role": "user", "content": results})
            choice = "auto"

    def _stream(self, request: dict[str, Any]) -> dict[str, Any]:
        """The message put together from its events, as the documentation of ConverseStream shows it."""
        blocks: list[dict[str, Any]] = []
        for event in self._client.converse_stream(**request)["stream"]:
            if "contentBlockStart" in event:
                blocks.append({"toolUse": {**event["contentBlockStart"]["start"]["toolUse"], "input": ""}})
            elif "contentBlockDelta" in event:
                index, delta = event["contentBlockDelta"]["contentBlockIndex"], event["contentBlockDelta"]["delta"]
                if index == len(blocks):
                    empty = {"text": ""} if "text" in delta else {"reasoningContent": {"reasoningText": {"text": ""}}}
                    blocks.append(empty)
                if "text" in delta:
                    blocks[index]["text"] += delta["text"]
                elif "toolUse" in delta:
                    blocks[index]["toolUse"]["input"] += delta["toolUse"]["input"]
                else:
                    for key, value in delta["reasoningContent"].items():
                        inner = blocks[index]["reasoningContent"]["reasoningText"]
                        inner[key] = inner.get(key, "") + value
        for block in blocks:
            if "toolUse" in block:
                block["toolUse"]["input"] = json.loads(block["toolUse"]["input"])
        return {"role": "assistant", "content": blocks}


class GeminiAgent:
    def __init__(self, url: str) -> None:
        self._client = genai.Client(api_key=TOKEN, vertexai=False, http_options=types.HttpOptions(base_url=url))
        self._contents: list[Any] = []

    def ask(self, prompt: str, tools: list[Tool], choice: Choice = "auto", *, stream: bool = False) -> Run:
        run = Run()
        self._contents.append(types.Content(role="user", parts=[types.Part(text=prompt)]))
        while True:
            config = self._config(tools, choice)
            run.steps += 1
            request: Any = {"model": MODEL, "contents": self._contents, "config": config}
            parts: list[types.Part] = []
            if stream:
                for chunk in self._client.models.generate_content_stream(**request):
                    parts += (chunk.candidates[0].content.parts or []) if chunk.candidates else []
            else:
                reply = self._client.models.generate_content(**request)
                parts = reply.candidates[0].content.parts or []
            self._contents.append(types.Content(role="model", parts=parts))
            run.text += "".join(part.text or "" for part in parts if not part.thought)
            calls = [part.function_call for part in parts if part.function_call]
            if not calls:
                return run
            self._contents.append(types.Content(role="user", parts=[self._answer(tools, run, call) for call in calls]))
            choice = "auto"

    def _config(self, tools: list[Tool], choice: Choice) -> types.GenerateContentConfig | None:
        if not tools:
            return None
        declared = [
            types.FunctionDeclaration(name=t.name, description=t.description, parameters_json_schema=t.schema)
            for t in tools
        ]
        mode = {"auto": "AUTO", "required": "ANY", "none": "NONE"}.get(choice, "ANY")
        allowed = None if choice in ("auto", "required", "none") else [choice]
        calling = types.FunctionCallingConfig(mode=mode, allowed_function_names=allowed)
        return types.GenerateContentConfig(
            tools=[types.Tool(function_declarations=declared)],
            tool_config=types.ToolConfig(function_calling_config=calling),
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        )

    def _answer(self, tools: list[Tool], run: Run, call: types.FunctionCall) -> types.Part:
        outcome = _invoke(tools, run, call.name or "", call.args or {})
        key = "error" if outcome.failed else "output"
        answer = types.FunctionResponse(id=call.id, name=call.name, response={key: outcome.text})
        if outcome.image:
            blob = types.FunctionResponseBlob(mime_type="image/png", data=outcome.image)
            answer.parts = [types.FunctionResponsePart(inline_data=blob)]
        return types.Part(function_response=answer)


AGENTS: dict[str, Callable[[str], Agent]] = {
    "anthropic": AnthropicAgent,
    "responses": ResponsesAgent,
    "chat": ChatAgent,
    "bedrock": BedrockAgent,
    "gemini": GeminiAgent,
}
