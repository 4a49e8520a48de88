"""Any conversation in any dialect, also a damaged one, becomes a request that the service's rules accept."""

import base64
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gemcode.gateway.anthropic import AnthropicDialect
from gemcode.gateway.bedrock import BedrockDialect
from gemcode.gateway.chat import ChatDialect
from gemcode.gateway.dialect import Dialect, Envelope
from gemcode.gateway.responses import ResponsesDialect
from gemcode.gateway.signatures import SignatureMemory
from gemcode.gateway.upstream import encode
from gemcode.simulator.errors import Rejected
from gemcode.simulator.rules import check_request
from tests.gateway.strategies import JSON, tool_schemas

MODELS = st.sampled_from(
    ["gemini-3.8-flash", "gemini-3.5-flash", "gemini-3-flash-preview", "gemini-2.5-pro", "gemini-4-argon"]
)
IDS = st.sampled_from(["toolu_1", "call_1", "tooluse_1", "2", "3", "", "same", "ünï"])
TEXT = st.sampled_from(["", " ", "hello", "wörld \U0001f600", "x" * 50])
NAMES = st.sampled_from(["read", "Edit", "mcp/x y", "9lives", "a" * 80])
ARGS = st.dictionaries(st.text(max_size=4), JSON, max_size=3)
PNG = base64.b64encode(b"\x89PNG").decode()


def reasoning(model: str) -> st.SearchStrategy[str]:
    """Signatures of every origin: ours, of another model, of another vendor, none."""
    seal = [
        Envelope(kind, made_by, "QUJD").seal()
        for kind in ("call", "text", "thought")
        for made_by in (model, "gemini-x")
    ]
    return st.sampled_from([*seal, "", "EqQBCgIYAhIM", "gc1.call"])


def anthropic_messages(model: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    text = st.builds(lambda t: {"type": "text", "text": t, "cache_control": {"type": "ephemeral"}}, TEXT)
    content = st.one_of(TEXT, st.lists(text | st.just(image), max_size=2), st.none())
    result = st.builds(
        lambda i, c, bad: {"type": "tool_result", "tool_use_id": i, "content": c, "is_error": bad},
        IDS,
        content,
        st.booleans(),
    )
    use = st.builds(lambda i, n, a: {"type": "tool_use", "id": i, "name": n, "input": a}, IDS, NAMES, ARGS)
    thinking = st.builds(lambda t, s: {"type": "thinking", "thinking": t, "signature": s}, TEXT, reasoning(model))
    user = st.builds(
        lambda blocks: {"role": "user", "content": blocks}, TEXT | st.lists(text | st.just(image) | result, max_size=4)
    )
    assistant = st.builds(
        lambda blocks: {"role": "assistant", "content": blocks}, TEXT | st.lists(text | use | thinking, max_size=5)
    )
    system = st.builds(lambda t: {"role": "system", "content": t}, TEXT)
    return st.lists(user | assistant | system, max_size=8)


def responses_items(model: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    part = st.builds(lambda t: {"type": "input_text", "text": t}, TEXT)
    picture = st.just({"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"})
    roles = st.sampled_from(["user", "developer", "system"])
    said = st.builds(
        lambda r, c: {"type": "message", "role": r, "content": c}, roles, TEXT | st.lists(part | picture, max_size=3)
    )
    answered = st.builds(lambda t: {"role": "assistant", "content": [{"type": "output_text", "text": t}]}, TEXT)
    call = st.builds(
        lambda i, n, a, s: {"type": "function_call", "call_id": i, "name": n, "arguments": a, **s},
        IDS,
        NAMES,
        st.sampled_from(["{}", '{"a": 1}', "{broken", "", "[1]"]),
        st.sampled_from([{}, {"namespace": "multi"}]),
    )
    custom = st.builds(
        lambda i, t: {"type": "custom_tool_call", "call_id": i, "name": "apply_patch", "input": t}, IDS, TEXT
    )
    output = TEXT | st.lists(part | picture, max_size=2)
    result = st.builds(
        lambda k, i, o: {"type": k, "call_id": i, "output": o},
        st.sampled_from(["function_call_output", "custom_tool_call_output"]),
        IDS,
        output,
    )
    thought = st.builds(
        lambda s, t: {"type": "reasoning", "summary": [{"type": "summary_text", "text": t}], "encrypted_content": s},
        reasoning(model),
        TEXT,
    )
    search = st.just({"type": "web_search_call", "id": "ws_1", "status": "completed"})
    return st.lists(said | answered | call | custom | result | thought | search, max_size=12)


def chat_messages(model: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    part = st.builds(lambda t: {"type": "text", "text": t}, TEXT)
    picture = st.just({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}})
    user = st.builds(lambda c: {"role": "user", "content": c}, TEXT | st.lists(part | picture, max_size=3))
    call = st.builds(
        lambda i, n, a, s: {
            "id": i,
            "type": "function",
            "function": {"name": n, "arguments": a},
            "extra_content": {"google": {"thought_signature": s}},
        },
        IDS,
        NAMES,
        st.sampled_from(["{}", '{"a": 1}', "{broken", ""]),
        reasoning(model),
    )
    assistant = st.builds(
        lambda t, calls: {"role": "assistant", "content": t, "tool_calls": calls},
        TEXT | st.none(),
        st.lists(call, max_size=3),
    )
    tool = st.builds(lambda i, c: {"role": "tool", "tool_call_id": i, "content": c}, IDS, TEXT)
    system = st.builds(lambda r, c: {"role": r, "content": c}, st.sampled_from(["system", "developer"]), TEXT)
    return st.lists(user | assistant | tool | system, max_size=10)


def bedrock_messages(model: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    text = st.builds(lambda t: {"text": t}, TEXT)
    image = st.just({"image": {"format": "png", "source": {"bytes": PNG}}})
    json_block = st.builds(lambda v: {"json": v}, JSON)
    result = st.builds(
        lambda i, c, s: {"toolResult": {"toolUseId": i, "content": c, "status": s}},
        IDS,
        st.lists(text | image | json_block, max_size=3),
        st.sampled_from(["success", "error"]),
    )
    use = st.builds(lambda i, n, a: {"toolUse": {"toolUseId": i, "name": n, "input": a}}, IDS, NAMES, ARGS)
    thought = st.builds(
        lambda t, s: {"reasoningContent": {"reasoningText": {"text": t, "signature": s}}}, TEXT, reasoning(model)
    )
    user = st.builds(lambda c: {"role": "user", "content": c}, st.lists(text | image | result, max_size=4))
    assistant = st.builds(lambda c: {"role": "assistant", "content": c}, st.lists(text | use | thought, max_size=4))
    return st.lists(user | assistant, max_size=8)


Shape = tuple[Dialect, Callable[[str], st.SearchStrategy[Any]], Callable[[Any, dict[str, Any]], dict[str, Any]]]
SHAPES: dict[str, Shape] = {
    "anthropic": (
        AnthropicDialect(),
        anthropic_messages,
        lambda said, schema: {"messages": said, "tools": [{"name": "read", "input_schema": schema}]},
    ),
    "responses": (
        ResponsesDialect(),
        responses_items,
        lambda said, schema: {"input": said, "tools": [{"type": "function", "name": "read", "parameters": schema}]},
    ),
    "chat": (
        ChatDialect(),
        chat_messages,
        lambda said, schema: {
            "messages": said,
            "tools": [{"type": "function", "function": {"name": "read", "parameters": schema}}],
        },
    ),
    "bedrock": (
        BedrockDialect(),
        bedrock_messages,
        lambda said, schema: {
            "messages": said,
            "toolConfig": {"tools": [{"toolSpec": {"name": "read", "inputSchema": {"json": schema}}}]},
        },
    ),
}
HELLO = {
    "anthropic": {"role": "user", "content": "hello"},
    "responses": {"role": "user", "content": "hello"},
    "chat": {"role": "user", "content": "hello"},
    "bedrock": {"role": "user", "content": [{"text": "hello"}]},
}


@pytest.mark.soak
@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_ten_thousand_of_them_are_accepted(name: str, data: st.DataObject) -> None:
    check(name, data)


@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_it_is_accepted(name: str, data: st.DataObject) -> None:
    check(name, data)


def check(name: str, data: st.DataObject) -> None:
    dialect, conversations, body_of = SHAPES[name]
    model = data.draw(MODELS)
    said = [*data.draw(conversations(model)), HELLO[name]]
    body = {"model": model, "modelId": model, **body_of(said, data.draw(tool_schemas()))}
    asked = dialect.decode(body, lambda given: given)
    request, unsigned = SignatureMemory().complete(asked.request)
    level = data.draw(st.sampled_from([0, 0, 1, 3]))
    encoded = encode(replace(asked, request=request), level)
    try:
        check_request("v1beta", model, "generateContent", encoded, strict_ids=True)
    except Rejected as refusal:
        raise AssertionError(f"{refusal.message} {refusal.hint}") from None
    assert unsigned >= 0
