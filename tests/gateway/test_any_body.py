"""Any JSON at all: a dialect understands it or says what is wrong, and never falls over."""

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gemcode.agent.errors import UsageError
from gemcode.gateway import native
from gemcode.gateway.anthropic import AnthropicDialect
from gemcode.gateway.bedrock import BedrockDialect
from gemcode.gateway.chat import ChatDialect
from gemcode.gateway.convert import convert
from gemcode.gateway.dialect import Dialect, Failure, dump
from gemcode.gateway.items import FORMATS
from gemcode.gateway.responses import ResponsesDialect
from gemcode.gateway.upstream import encode
from gemcode.gemini import wire
from tests.gateway.clients import ANTHROPIC, BEDROCK, CHAT, RESPONSES
from tests.gateway.strategies import JSON

USE = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "x"}}
RESULT = {
    "type": "tool_result",
    "tool_use_id": "toolu_1",
    "content": [{"type": "text", "text": "a"}],
    "is_error": False,
}
BROKEN_IMAGE = {"type": "image", "source": {"type": "base64", "data": "A"}}
CHAT_CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
BODIES: dict[str, tuple[Dialect, dict[str, Any]]] = {
    "anthropic": (
        AnthropicDialect(),
        {
            **ANTHROPIC.body("hi", True),
            "system": [{"type": "text", "text": "s"}],
            "tool_choice": {"type": "auto"},
            "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {}}},
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": "x"}, USE]},
                {"role": "user", "content": [RESULT, {"type": "text", "text": "go"}]},
            ],
        },
    ),
    "responses": (
        ResponsesDialect(),
        {
            **RESPONSES.body("hi", True),
            "text": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
            "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "read"}]},
            "input": [
                {"role": "developer", "content": "d"},
                {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "t"}], "encrypted_content": "x"},
                {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}", "namespace": "n"},
                {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "a"}]},
                {"type": "custom_tool_call", "call_id": "d", "name": "p", "input": "x"},
            ],
        },
    ),
    "chat": (
        ChatDialect(),
        {
            **CHAT.body("hi", True),
            "response_format": {"type": "json_schema", "json_schema": {"schema": {}}},
            "messages": [
                {"role": "system", "content": [{"type": "text", "text": "s"}]},
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://e.org/a.png"}}]},
                {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]},
                {"role": "tool", "tool_call_id": "c", "content": "x"},
            ],
        },
    ),
    "bedrock": (
        BedrockDialect(),
        {
            "modelId": "m",
            **BEDROCK.body("hi", True),
            "system": [{"text": "s"}],
            "messages": [
                {
                    "role": "user",
                    "content": [{"document": {"format": "pdf", "name": "n", "source": {"bytes": "AAAA"}}}],
                },
                {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "f", "input": {}}}]},
                {"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": [{"json": {}}]}}]},
            ],
        },
    ),
}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))] if path or inner else [path]


@st.composite
def damaged(draw: st.DrawFn, body: dict[str, Any]) -> dict[str, Any]:
    """The body with a few of its values replaced by anything."""
    body = copy.deepcopy(body)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from([place for place in places(body) if place]))
        holder: Any = body
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = draw(
            JSON | st.floats() | st.just({"type": "image", "source": {"type": "base64", "data": "A"}})
        )
    return body


@pytest.mark.parametrize("name", BODIES)
@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_damaged_request_is_understood_or_refused(name: str, data: st.DataObject) -> None:
    dialect, body = BODIES[name]
    try:
        asked = dialect.decode(data.draw(damaged(body)), lambda given: "gemini-3.8-flash")
    except Failure as failure:
        assert failure.message
        return
    for level in (0, 3):
        wire.dump_body(encode(asked, level))


@settings(max_examples=200, deadline=None)
@given(JSON, JSON, st.lists(JSON, max_size=3))
def test_the_gemini_endpoint_takes_anything_or_refuses_it(contents: Any, conversation: Any, tools: list[Any]) -> None:
    body = {"contents": contents, "conversation": conversation, "tools": tools, "functionDeclarations": tools}
    try:
        native.conversation_id(body)
        native.prepare(body, [])
    except Failure as failure:
        assert failure.message
    native.model_content([contents, conversation, *tools])


@pytest.mark.parametrize("source", FORMATS)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_json_is_converted_or_refused(source: str, data: st.DataObject) -> None:
    name = {"gemini": "anthropic", "amazonq": "bedrock"}.get(source, source)
    start = dump({"tools": BODIES["anthropic"][1]["tools"], "messages": BODIES["anthropic"][1]["messages"]})
    made = json.loads(convert(start, "anthropic", source).text)
    value = data.draw(damaged(made)) if data.draw(st.booleans()) else data.draw(damaged(BODIES[name][1]))
    for target in FORMATS:
        try:
            convert(dump(value), source, target)
        except UsageError as error:
            assert error.message
