"""The normalizer: what Gemini would pass over is said in words it heeds, and nothing becomes narrower."""

import copy
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gemcode.gateway import lossy
from gemcode.gateway.items import from_openapi
from gemcode.gateway.schema import losses, normalize
from gemcode.simulator.errors import Rejected
from gemcode.simulator.rules import check_request
from tests.gateway.strategies import instances, tool_schemas

MODEL = "gemini-3.8-flash"


def accepted(declaration: dict[str, Any]) -> None:
    """The service takes a request with this declaration."""
    body = {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "tools": [{"functionDeclarations": [{"name": "f", "description": "d", **declaration}]}],
    }
    try:
        check_request("v1beta", MODEL, "generateContent", body)
    except Rejected as refusal:
        raise AssertionError(f"{refusal.message} {refusal.hint}") from None


def keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {key for item in value.values() for key in keys(item)}
    return {key for item in value for key in keys(item)} if isinstance(value, list) else set()


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(tool_schemas(), st.data())
def test_any_schema_is_accepted_and_arguments_that_were_valid_stay_valid(
    schema: dict[str, Any], data: st.DataObject
) -> None:
    before = copy.deepcopy(schema)
    result = normalize(schema)
    assert schema == before, "the client's schema was changed"
    accepted({"parametersJsonSchema": result})
    jsonschema.Draft202012Validator.check_schema(result)
    arguments = data.draw(instances(schema))
    assume(jsonschema.Draft202012Validator(schema).is_valid(arguments))
    jsonschema.Draft202012Validator(result).validate(arguments)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(tool_schemas(), st.sampled_from([1, 2, 3]), st.data())
def test_every_rung_of_the_ladder_is_accepted_and_only_widens(
    schema: dict[str, Any], level: int, data: st.DataObject
) -> None:
    reduced = lossy.to_openapi(normalize(schema), level)
    if reduced is None:
        return
    accepted({"parameters": reduced})
    arguments = data.draw(instances(schema))
    assume(jsonschema.Draft202012Validator(schema).is_valid(arguments))
    jsonschema.Draft202012Validator(from_openapi(reduced)).validate(arguments)


@pytest.mark.soak
@settings(max_examples=20_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(tool_schemas(), st.sampled_from([0, 1, 2, 3]), st.data())
def test_many_schemas_and_rungs_only_widen(schema: dict[str, Any], level: int, data: st.DataObject) -> None:
    reduced = lossy.to_openapi(normalize(schema), level) if level else None
    result = from_openapi(reduced) if reduced is not None else normalize(schema)
    accepted({"parameters": reduced} if reduced is not None else {"parametersJsonSchema": result})
    arguments = data.draw(instances(schema))
    assume(jsonschema.Draft202012Validator(schema).is_valid(arguments))
    jsonschema.Draft202012Validator(result).validate(arguments)


@given(tool_schemas())
@settings(max_examples=100, deadline=None)
def test_normalizing_twice_changes_nothing_more(schema: dict[str, Any]) -> None:
    once = normalize(schema)
    assert normalize(once) == once


def test_words_about_the_schema_itself_are_dropped_everywhere() -> None:
    schema = {"$schema": "x", "$id": "y", "properties": {"a": {"$comment": "c", "type": "string", "examples": ["q"]}}}
    assert normalize(schema) == {"properties": {"a": {"type": "string"}}, "type": "object"}


def test_a_property_may_be_called_like_a_keyword() -> None:
    schema = {"type": "object", "properties": {"$schema": {"type": "string"}, "oneOf": {"type": "integer"}}}
    assert normalize(schema)["properties"] == {"$schema": {"type": "string"}, "oneOf": {"type": "integer"}}


@pytest.mark.parametrize("value", [None, True, [], "object", {"type": "array"}, {"type": ["object", "null"]}])
def test_the_root_is_always_an_object(value: Any) -> None:
    assert normalize(value)["type"] == "object"


def test_one_of_becomes_any_of_and_all_of_is_joined() -> None:
    schema = {
        "type": "object",
        "properties": {"v": {"oneOf": [{"type": "string"}, {"type": "integer"}]}},
        "allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"required": ["v"]}],
    }
    result = normalize(schema)
    assert result["properties"] == {"v": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "a": {"type": "string"}}
    assert result["required"] == ["a", "v"]
    assert "allOf" not in keys(result)


def test_a_reference_stands_alone_and_unused_definitions_go() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/definitions/A", "description": "the a"}},
        "definitions": {"A": {"type": "string"}, "B": {"type": "integer"}},
    }
    result = normalize(schema)
    assert result["properties"]["a"] == {"description": "the a", "anyOf": [{"$ref": "#/$defs/A"}]}
    assert result["$defs"] == {"A": {"type": "string"}}


def test_a_reference_out_of_the_schema_is_dropped() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "https://example.org/a.json"}, "b": {"$ref": "#/$defs/no"}},
    }
    assert normalize(schema)["properties"] == {"a": {}, "b": {}}


def test_a_definition_that_holds_itself_ends() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    schema = {"type": "object", "properties": {"first": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}
    assert normalize(schema)["$defs"]["node"]["properties"]["next"] == {"$ref": "#/$defs/node"}
    assert lossy.to_openapi(normalize(schema), 1) is not None


def test_a_schema_nested_beyond_reason_ends() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(300):
        schema = {"type": "object", "properties": {"x": schema}}
    accepted({"parametersJsonSchema": normalize(schema)})


def test_a_constant_becomes_an_enum_of_one() -> None:
    result = normalize({"properties": {"k": {"const": "x"}, "n": {"const": 3}, "t": {"const": True}}})
    assert result["properties"] == {"k": {"enum": ["x"]}, "n": {"enum": [3]}, "t": {"const": True}}


def test_losses_are_told_with_their_path() -> None:
    schema = {"properties": {"a": {"oneOf": [{}, {}]}, "b": {"$ref": "other.json"}}, "allOf": [{}, {}]}
    assert [path for path, _ in losses(schema)] == [".allOf", ".properties.a.oneOf", ".properties.b.$ref"]


def test_the_ladder_says_in_words_what_it_drops() -> None:
    schema = normalize(
        {
            "type": "object",
            "properties": {
                "n": {"type": "integer", "exclusiveMinimum": 0, "description": "how many"},
                "u": {"type": "string", "format": "uri", "maxLength": 9},
                "e": {"type": "string", "enum": ["a", "b"]},
                "k": {"enum": [1, 2]},
            },
        }
    )
    first, second, third = (lossy.to_openapi(schema, level) for level in (1, 2, 3))
    assert first is not None and second is not None and third is not None
    assert first["properties"]["n"] == {
        "type": "INTEGER",
        "minimum": 1,
        "description": "how many (exclusiveMinimum: 0)",
    }
    assert first["properties"]["u"] == {"type": "STRING", "maxLength": 9, "description": "(format: uri)"}
    assert first["properties"]["e"] == {"type": "STRING", "enum": ["a", "b"]}
    assert second["properties"]["u"] == {"type": "STRING", "description": "(format: uri; maxLength: 9)"}
    assert third["properties"]["e"] == {"type": "STRING", "description": "(one of: a, b)"}


def test_a_tool_without_parameters_has_none_on_the_ladder() -> None:
    assert lossy.to_openapi(normalize({}), 1) is None
