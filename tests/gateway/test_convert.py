"""gemcode convert: every pair of dialects, strict and permissive, and the Amazon Q structures."""

import itertools
import json
from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from gemcode.agent.errors import UsageError
from gemcode.gateway.bedrock import (
    document_to_json,
    from_amazon_q_result,
    from_amazon_q_tool,
    from_amazon_q_use,
    json_to_document,
    to_amazon_q_result,
    to_amazon_q_tool,
    to_amazon_q_use,
)
from gemcode.gateway.convert import convert
from gemcode.gateway.eventstream import event_frame, exception_frame
from gemcode.gateway.items import FORMATS, from_openapi
from tests.gateway.strategies import JSON

SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string", "description": "where"}, "n": {"type": "integer"}},
    "required": ["path"],
}
ARGS = {"path": "naïve \U0001f600", "n": 3}
ANTHROPIC = {
    "tools": [{"name": "read_file", "description": "Reads.", "input_schema": SCHEMA}],
    "messages": [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "read_file", "input": ARGS}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "text"}]},
    ],
}


def through(value: Any, source: str, target: str, *, strict: bool = False) -> Any:
    return json.loads(convert(json.dumps(value), source, target, strict=strict).text)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(FORMATS, FORMATS)))
def test_every_pair_there_and_back_loses_nothing_that_both_can_say(source: str, target: str) -> None:
    start = through(ANTHROPIC, "anthropic", source, strict=True)
    assert through(through(start, source, target, strict=True), target, source, strict=True) == start


@given(
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", fullmatch=True),
    st.dictionaries(st.text(max_size=5), JSON, max_size=4),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=20),
    st.sampled_from(list(itertools.product(FORMATS, FORMATS))),
)
def test_any_call_and_any_text_come_through_any_two_dialects(
    name: str, args: dict[str, Any], text: str, pair: tuple[str, str]
) -> None:
    call = {"type": "tool_use", "id": "t1", "name": name, "input": args}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": text}]}
    first, second = pair
    there = through(through([call, result], "anthropic", first, strict=True), first, second, strict=True)
    assert through(there, second, "anthropic", strict=True) == {"calls": [call], "results": [result]}


def test_gemini_gets_one_entry_of_declarations_and_the_name_in_the_result() -> None:
    made = through(ANTHROPIC, "anthropic", "gemini")
    declaration = {"name": "read_file", "description": "Reads.", "parametersJsonSchema": SCHEMA}
    assert made["tools"] == [{"functionDeclarations": [declaration]}]
    assert made["calls"] == [{"functionCall": {"id": "t1", "name": "read_file", "args": ARGS}}]
    response = {"id": "t1", "name": "read_file", "response": {"output": "text"}}
    assert made["results"] == [{"functionResponse": response}]


def test_one_item_alone_stays_one() -> None:
    tool = {"type": "function", "name": "f", "description": "", "parameters": SCHEMA}
    assert through(tool, "openai", "claude") == {"name": "f", "description": "", "input_schema": SCHEMA}


@pytest.mark.parametrize(
    ("source", "target", "value", "path"),
    [
        ("anthropic", "gemini", {"name": "a b", "input_schema": SCHEMA}, "$.name"),
        (
            "anthropic",
            "gemini",
            [{"name": "f", "input_schema": {"properties": {"a": {"oneOf": [{}, {}]}}}}],
            "$[0].input_schema.properties.a.oneOf",
        ),
        (
            "anthropic",
            "gemini",
            {"name": "f", "input_schema": {"properties": {"a": {"$ref": "x.json"}}}},
            "$.input_schema.properties.a.$ref",
        ),
        ("anthropic", "chat", {"type": "tool_result", "tool_use_id": "t", "content": "no", "is_error": True}, "$"),
        ("anthropic", "gemini", {"type": "tool_result", "tool_use_id": "t", "content": "x"}, "$"),
        (
            "gemini",
            "anthropic",
            {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "QUJD"},
            "$.thoughtSignature",
        ),
        ("responses", "bedrock", {"type": "custom", "name": "patch"}, "$"),
        (
            "anthropic",
            "chat",
            {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "document", "source": {}}]},
            "$.content[0]",
        ),
        (
            "responses",
            "anthropic",
            {"type": "function_call_output", "call_id": "c", "output": [{"image_url": "https://example.org/a.png"}]},
            "$.output[0]",
        ),
        (
            "bedrock",
            "anthropic",
            {"toolResult": {"toolUseId": "t", "content": [{"text": "a"}, {"document": {"name": "n"}}]}},
            "$.toolResult.content[1]",
        ),
        (
            "responses",
            "anthropic",
            {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]},
            "$.tools[0].name",
        ),
    ],
)
def test_what_the_target_cannot_hold_is_a_warning_or_when_strict_an_error_with_its_path(
    source: str, target: str, value: Any, path: str
) -> None:
    text = json.dumps(value)
    (warning, *_) = convert(text, source, target).warnings
    assert warning.startswith(f"{path}: ")
    with pytest.raises(UsageError) as refused:
        convert(text, source, target, strict=True)
    assert refused.value.message.startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("text", "source", "words"),
    [
        ("{", "anthropic", "not JSON"),
        ('{"a": NaN}', "anthropic", "not JSON"),
        ("[" * 100_000, "anthropic", "nested too deeply"),
        ('{"type": "tool_result", "tool_use_id": "t", "content": 5}', "anthropic", "must be an array"),
        ('{"functionCall": {"name": "f"}, "thoughtSignature": 5}', "gemini", "must be a string"),
        ("{}", "anthropic", "no tool definition"),
        ("[1, 2]", "gemini", "no tool definition"),
        ('{"name": 5, "input_schema": {}}', "anthropic", "must be a string"),
        ('{"name": "f", "input_schema": 5}', "anthropic", "must be an object"),
        ("{}", "cobol", "is no format"),
    ],
)
def test_text_that_holds_nothing_usable_is_said(text: str, source: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        convert(text, source, "gemini")


def test_the_dialect_that_it_rather_is_is_named() -> None:
    text = json.dumps({"type": "function", "function": {"name": "f", "parameters": SCHEMA}})
    with pytest.raises(UsageError) as refused:
        convert(text, "anthropic", "gemini")
    assert refused.value.hint == "It looks like chat or gemini: say so with --from."


def test_strict_says_how_much_more_is_lost() -> None:
    tools = [{"name": name, "input_schema": SCHEMA} for name in ("a b", "c d", "e f")]
    with pytest.raises(UsageError, match=r"^\$\[0\].name: 'a b' becomes .* \(and 2 more\)\.$"):
        convert(json.dumps(tools), "anthropic", "gemini", strict=True)


def test_calls_of_gemini_without_ids_get_them_and_so_do_their_results() -> None:
    calls = [{"functionCall": {"name": name, "args": {}}} for name in ("f", "f", "g")]
    results = [{"functionResponse": {"name": name, "response": {"output": name}}} for name in ("g", "f", "f")]
    made = through([*calls, *results], "gemini", "anthropic", strict=True)
    ids = [call["id"] for call in made["calls"]]
    assert len(set(ids)) == 3 and all(ids)
    assert [result["tool_use_id"] for result in made["results"]] == [ids[2], ids[0], ids[1]]


def test_a_grammar_stays_or_becomes_words() -> None:
    form = {"type": "grammar", "syntax": "lark", "definition": "start: X"}
    tool = {"type": "custom", "name": "patch", "description": "Patches.", "format": form}
    assert through(tool, "responses", "responses", strict=True) == tool
    assert "lark grammar:\nstart: X" in through(tool, "responses", "anthropic")["description"]


def test_custom_tools_of_chat_are_read() -> None:
    call = {"id": "c1", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}
    tool = {"type": "custom", "custom": {"name": "patch", "description": "Patches."}}
    made = through([tool, call], "chat", "responses")
    assert made["tools"] == [{"type": "custom", "name": "patch", "description": "Patches."}]
    assert made["calls"] == [{"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "*** Begin"}]


def test_a_name_that_only_gemini_refuses_is_kept_by_the_others() -> None:
    tool = {"name": "2fa", "input_schema": SCHEMA}
    assert through(tool, "anthropic", "chat", strict=True)["function"]["name"] == "2fa"
    with pytest.raises(UsageError):
        convert(json.dumps(tool), "anthropic", "gemini", strict=True)


def test_an_image_alone_makes_no_empty_text() -> None:
    blocks = [{"image": {"format": "jpg", "source": {"bytes": "AA=="}}}]
    result = {"toolResult": {"toolUseId": "t", "content": blocks, "status": "success"}}
    (image,) = through(result, "bedrock", "anthropic")["content"]
    assert image["source"]["media_type"] == "image/jpeg"
    assert [part["type"] for part in through(result, "bedrock", "responses")["output"]] == ["input_image"]
    assert len(through(result, "bedrock", "bedrock")["toolResult"]["content"]) == 1


def test_several_values_of_a_result_are_json_text() -> None:
    result = {"toolResult": {"toolUseId": "t", "content": [{"json": {"a": None}}, {"text": "b"}]}}
    assert through(result, "bedrock", "anthropic")["content"] == [{"type": "text", "text": '{"a":null}\nb'}]


def test_images_and_json_in_results() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "see"}, image]}
    bedrock = through(result, "anthropic", "bedrock")
    assert bedrock["toolResult"]["content"] == [
        {"text": "see"},
        {"image": {"format": "png", "source": {"bytes": "iVBORw=="}}},
    ]
    assert through(bedrock, "bedrock", "anthropic") == result
    responses = through(result, "anthropic", "responses")
    assert responses["output"][1] == {"type": "input_image", "image_url": "data:image/png;base64,iVBORw=="}
    value = {"toolResult": {"toolUseId": "t", "content": [{"json": {"a": [1]}}], "status": "error"}}
    (made,) = through([value, {"toolUse": {"toolUseId": "t", "name": "f", "input": {}}}], "bedrock", "gemini")[
        "results"
    ]
    assert made["functionResponse"]["response"] == {"error": {"a": [1]}}


def test_the_openapi_subset_becomes_json_schema() -> None:
    schema = {
        "type": "OBJECT",
        "properties": {
            "a": {"type": "STRING", "nullable": True, "enum": ["x"]},
            "b": {"type": "ARRAY", "items": {"type": "INTEGER"}, "min_items": 1},
            "c": {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}], "nullable": True},
        },
        "propertyOrdering": ["a", "b"],
    }
    assert from_openapi(schema) == {
        "type": "object",
        "properties": {
            "a": {"type": ["string", "null"], "enum": ["x", None]},
            "b": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
            "c": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]},
        },
    }


class TestAmazonQ:
    @given(JSON)
    def test_documents_there_and_back(self, value: Any) -> None:
        assert document_to_json(json_to_document(value)) == value

    @given(st.dictionaries(st.sampled_from(["String", "Object", "x"]), st.text(max_size=3), max_size=2))
    def test_plain_json_that_looks_tagged_only_in_part_stays(self, value: dict[str, Any]) -> None:
        wrapped = {"Object": {"a": value}} if set(value) != {"String"} else {"b": value}
        assert document_to_json(wrapped) == wrapped

    def test_a_specification_in_both_spellings(self) -> None:
        spec = {"name": "fs_read", "description": "Reads.", "inputSchema": {"json": SCHEMA}}
        assert from_amazon_q_tool({"toolSpecification": {**spec}}) == spec
        snake = to_amazon_q_tool(spec)
        assert snake["input_schema"]["json"]["Object"]["type"] == {"String": "object"}
        assert from_amazon_q_tool(snake) == spec

    def test_a_use_and_its_results(self) -> None:
        use = {"toolUseId": "t1", "name": "fs_read", "input": ARGS}
        assert from_amazon_q_use(to_amazon_q_use(use)) == use
        assert from_amazon_q_use({"toolUseId": "t1", "name": "fs_read", "input": ARGS}) == use
        for status in ("success", "error"):
            result = {"toolUseId": "t1", "content": [{"text": "a"}, {"json": {"b": -1.5}}], "status": status}
            made = to_amazon_q_result(result)
            assert made["status"] == status.capitalize() and made["content"][0] == {"Text": "a"}
            assert from_amazon_q_result(made) == result
        camel = {"toolUseId": "t1", "content": [{"text": "a"}, {"json": {"b": 1}}], "status": "error"}
        assert from_amazon_q_result(camel) == camel


def test_frames_are_read_by_the_official_parser_byte_by_byte() -> None:
    data = event_frame("messageStart", {"role": "assistant"}) + exception_frame("throttlingException", "wörds")
    buffer = EventStreamBuffer()
    frames = []
    for index in range(len(data)):
        buffer.add_data(data[index : index + 1])
        frames += list(buffer)
    assert [frame.headers[":message-type"] for frame in frames] == ["event", "exception"]
    assert json.loads(frames[1].payload) == {"message": "wörds"}
