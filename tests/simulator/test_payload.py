"""The JSON parser of the simulated service: spellings, nulls, kinds, and the words of its complaints."""

import base64
from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from gemcode.simulator.errors import Rejected
from gemcode.simulator.fields import MESSAGES
from gemcode.simulator.payload import Unreadable, camel_case, decode_bytes, read_json, read_payload

HELLO = [{"role": "user", "parts": [{"text": "hi"}]}]


def refusal(body: Any, version: str = "v1beta") -> Rejected:
    with pytest.raises(Rejected) as caught:
        read_payload("GenerateContentRequest", body, version)
    return caught.value


def test_both_spellings_mix_in_one_body() -> None:
    body = {
        "contents": HELLO,
        "generation_config": {"maxOutputTokens": 5, "thinking_config": {"includeThoughts": True}},
        "systemInstruction": {"parts": [{"text": "be brief"}]},
    }
    parsed = read_payload("GenerateContentRequest", body)
    assert parsed["generation_config"] == {"max_output_tokens": 5, "thinking_config": {"include_thoughts": True}}
    assert parsed["system_instruction"] == {"parts": [{"text": "be brief"}]}


def test_null_is_absent_and_one_value_stands_for_a_list() -> None:
    body = {
        "contents": {"parts": {"text": "hi"}},
        "tools": None,
        "toolConfig": None,
        "generationConfig": {"seed": None},
    }
    assert read_payload("GenerateContentRequest", body) == {
        "contents": [{"parts": [{"text": "hi"}]}],
        "generation_config": {},
    }


def test_unknown_names_are_listed_one_sentence_each_with_their_places() -> None:
    declaration = {
        "name": "f",
        "parameters": {"type": "object", "properties": {"a": {}, "b": {"anyOf": [{"const": 1}]}}},
    }
    body = {"contents": [{"parts": [{"text": "hi", "id": "1"}]}], "tools": [{"functionDeclarations": [declaration]}]}
    rejected = refusal({**body, "wrong": 1})
    assert rejected.http_code == 400
    assert rejected.status == "INVALID_ARGUMENT"
    sentences = [
        "Invalid JSON payload received. Unknown name \"id\" at 'contents[0].parts[0]': Cannot find field.",
        'Invalid JSON payload received. Unknown name "const" at '
        "'tools[0].function_declarations[0].parameters.properties[1].value.any_of[0]': Cannot find field.",
        'Invalid JSON payload received. Unknown name "wrong": Cannot find field.',
    ]
    assert rejected.message == "\n".join(sentences)
    (detail,) = rejected.details
    assert detail["@type"] == "type.googleapis.com/google.rpc.BadRequest"
    assert [violation["description"] for violation in detail["fieldViolations"]] == sentences
    assert detail["fieldViolations"][0]["field"] == "contents[0].parts[0]"
    assert "field" not in detail["fieldViolations"][2]


@pytest.mark.parametrize(
    "keyword", ["const", "oneOf", "allOf", "$schema", "patternProperties", "exclusiveMinimum", "$ref"]
)
def test_parameters_know_only_the_openapi_subset(keyword: str) -> None:
    declaration = {"name": "f", "parameters": {"type": "OBJECT", keyword: []}}
    rejected = refusal({"contents": HELLO, "tools": [{"functionDeclarations": [declaration]}]})
    assert f'Unknown name "{keyword}"' in rejected.message


def test_json_schemas_arguments_and_results_are_not_looked_into() -> None:
    anything = {"const": 1, "$schema": "x", "type": ["string", "null"], "oneOf": [{"made_up": True}]}
    contents = [
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": anything}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": anything}}]},
    ]
    tools = [{"functionDeclarations": [{"name": "f", "parameters_json_schema": anything}]}]
    body = {"contents": contents, "tools": tools, "generationConfig": {"responseJsonSchema": anything}}
    parsed = read_payload("GenerateContentRequest", body)
    assert parsed["contents"][0]["parts"][0]["function_call"]["args"] == anything
    assert parsed["tools"][0]["function_declarations"][0]["parameters_json_schema"] == anything


TYPE = "type.googleapis.com/google.ai.generativelanguage.v1.Type"
PLACE = "tools[0].function_declarations[0].parameters"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": ""}, f"Invalid value at '{PLACE}.type' ({TYPE}), \"\""),
        ({"type": "text"}, f"Invalid value at '{PLACE}.type' ({TYPE}), \"text\""),
        ({"type": "STRING", "enum": [0]}, f"Invalid value at '{PLACE}.enum[0]' (TYPE_STRING), 0"),
        (
            {"type": ["string", "null"]},
            f"Invalid JSON payload received. Unknown name \"type\" at '{PLACE}': Proto field is not repeating, cannot "
            "start list.",
        ),
    ],
)
def test_a_schema_of_the_wrong_kind_is_named(schema: dict[str, Any], message: str) -> None:
    body = {"contents": HELLO, "tools": [{"functionDeclarations": [{"name": "f", "parameters": schema}]}]}
    assert refusal(body, "v1").message == message


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"text": 5}, "Invalid value at 'contents[0].parts[0].text' (TYPE_STRING), 5"),
        (
            {"functionResponse": {"name": "f", "response": "done"}},
            "Invalid value at 'contents[0].parts[0].function_response.response' "
            '(type.googleapis.com/google.protobuf.Struct), "done"',
        ),
        (
            {"inlineData": {"mimeType": "image/png", "data": "not base64!"}},
            "Invalid value at 'contents[0].parts[0].inline_data.data' (TYPE_BYTES), Base64 decoding failed for "
            '"not base64!"',
        ),
        (
            {"text": "a", "functionCall": {"name": "f"}},
            "Invalid value at 'contents[0].parts[0]' (oneof), oneof field 'data' is already set. Cannot set "
            "'functionCall'",
        ),
        (
            {"text": {"a": 1}},
            "Invalid value at 'contents[0].parts[0].text' (TYPE_STRING), Starting an object on a scalar field.",
        ),
    ],
)
def test_a_part_of_the_wrong_kind_is_named(part: dict[str, Any], message: str) -> None:
    assert refusal({"contents": [{"parts": [part]}]}).message == message


@pytest.mark.parametrize("body", ["text", [], 5, True])
def test_a_body_that_is_no_object_is_refused(body: Any) -> None:
    assert refusal(body).message == 'Invalid JSON payload received. Unknown name "": Root element must be a message.'


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"contents": oops}', 'Unexpected token.\n{"contents": oops}\n             ^'),
        (b'{"a": ' + b" " * 40 + b"?", "Unexpected token.\n" + " " * 20 + "?\n" + " " * 20 + "^"),
        (b'{"temperature": NaN}', "Unexpected token.\nNaN\n^"),
        (b"\x1f\x8b\x08", "Encountered non UTF-8 code points."),
        ("{}".encode("utf-16"), "Encountered non UTF-8 code points."),
        (b"[" * 100_000, "Message too deep. Max recursion depth reached."),
    ],
)
def test_what_is_no_json_is_told_with_its_place(body: bytes, reason: str) -> None:
    assert read_json(body) == Unreadable(reason)


def test_json_may_begin_with_a_byte_order_mark() -> None:
    assert read_json(b"\xef\xbb\xbf{}") == {}
    assert read_json(b"") is None


@pytest.mark.parametrize("mode", ["any", "ANY", "Any"])
def test_enum_words_are_read_in_any_case(mode: str) -> None:
    body = {"contents": HELLO, "toolConfig": {"functionCallingConfig": {"mode": mode}}}
    assert read_payload("GenerateContentRequest", body)["tool_config"]["function_calling_config"]["mode"] == "ANY"


@given(st.binary())
def test_every_spelling_of_base64_decodes_to_the_same_bytes(data: bytes) -> None:
    for encoded in (base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()):
        assert decode_bytes(encoded) == data
        assert decode_bytes(encoded.rstrip("=")) == data


SDK_TYPES = {
    "Content": types.Content,
    "Part": types.Part,
    "Blob": types.Blob,
    "FileData": types.FileData,
    "FunctionResponse": types.FunctionResponse,
    "FunctionDeclaration": types.FunctionDeclaration,
    "Schema": types.Schema,
    "ToolConfig": types.ToolConfig,
    "ThinkingConfig": types.ThinkingConfig,
    "ExecutableCode": types.ExecutableCode,
    "CodeExecutionResult": types.CodeExecutionResult,
    "ToolCall": types.ToolCall,
    "ToolResponse": types.ToolResponse,
}


@pytest.mark.parametrize("name", SDK_TYPES)
def test_every_field_that_the_official_client_can_send_is_known(name: str) -> None:
    assert set(SDK_TYPES[name].model_fields) <= set(MESSAGES[name])


def test_camel_case_keeps_a_leading_underscore() -> None:
    assert camel_case("_response_json_schema") == "_responseJsonSchema"
    assert camel_case("text") == "text"
