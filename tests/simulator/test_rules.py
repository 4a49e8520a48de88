"""What the service refuses in contents, tools, modes, thinking and limits; and what it lets pass."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemcode.simulator.catalog import CURRENT, find_model
from gemcode.simulator.declarations import INVALID_NAME, NO_DECLARATIONS
from gemcode.simulator.errors import Rejected
from gemcode.simulator.fields import MESSAGES
from gemcode.simulator.payload import camel_case
from gemcode.simulator.rules import BOTH_THINKING, CACHE_CONFLICT, check_request, read_request

HELLO: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": "hi"}]}]


def accept(body: dict[str, Any], model: str = "gemini-3.8-flash", version: str = "v1beta") -> None:
    check_request(version, model, "generateContent", {"contents": HELLO, **body})


def refusal(body: dict[str, Any], model: str = "gemini-3.8-flash", method: str = "generateContent") -> Rejected:
    with pytest.raises(Rejected) as caught:
        check_request("v1beta", model, method, {"contents": HELLO, **body})
    return caught.value


def declare(*declarations: dict[str, Any]) -> dict[str, Any]:
    return {"tools": [{"functionDeclarations": list(declarations)}]}


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ([], "* GenerateContentRequest.contents: contents is not specified\n"),
        (None, "* GenerateContentRequest.contents: contents is not specified\n"),
        (
            [*HELLO, {"role": "model", "parts": []}],
            "* GenerateContentRequest.contents[1].parts: contents.parts must not be empty.\n",
        ),
        (
            [*HELLO, {"role": "model"}],
            "* GenerateContentRequest.contents[1].parts: contents.parts must not be empty.\n",
        ),
        (
            [{"parts": [{"thought": True}]}, {"parts": [{}]}],
            "* GenerateContentRequest.contents[0].parts[0].data: required oneof field 'data' must have one initialized "
            "field\n* GenerateContentRequest.contents[1].parts[0].data: required oneof field 'data' must have one "
            "initialized field\n",
        ),
        ([{"role": "system", "parts": [{"text": "x"}]}], "Please use a valid role: user, model."),
        (
            [*HELLO, {"role": "model", "parts": [{"functionCall": {"args": {}}}]}],
            "* GenerateContentRequest.contents[1].parts[0].function_call.name: Name cannot be empty.\n",
        ),
    ],
)
def test_contents_that_say_nothing_are_refused(contents: Any, message: str) -> None:
    assert refusal({"contents": contents}).message == message


def test_a_body_without_anything_says_that_contents_are_missing() -> None:
    with pytest.raises(Rejected, match="contents is not specified"):
        check_request("v1", "gemini-3.8-flash", "generateContent", None)


def test_counting_names_its_own_request() -> None:
    rejected = refusal({"contents": []}, method="countTokens")
    assert rejected.message == "* CountTokensRequest.contents: contents is not specified\n"
    inner = {"contents": None, "generateContentRequest": {"model": "models/gemini-3.8-flash"}}
    assert "CountTokensRequest.generate_content_request.contents:" in refusal(inner, method="countTokens").message


@pytest.mark.parametrize("role", ["user", "model", "function", "", None])
def test_an_empty_text_of_any_role_is_accepted(role: str | None) -> None:
    accept({"contents": [*HELLO, {"role": role, "parts": [{"text": ""}]}]})


@pytest.mark.parametrize("role", ["user", "model", "system", "anything"])
def test_the_role_of_the_system_instruction_is_ignored(role: str) -> None:
    accept({"systemInstruction": {"role": role, "parts": [{"text": "be brief"}]}})


def test_a_system_instruction_needs_data_too() -> None:
    message = refusal({"systemInstruction": {"parts": [{}]}}).message
    assert message.startswith("* GenerateContentRequest.system_instruction.parts[0].data: required oneof field 'data'")


@pytest.mark.parametrize("name", ["f", "_f", "a.b:c-d_9", "f" * 64])
def test_ordinary_function_names_pass(name: str) -> None:
    accept(declare({"name": name}))


@pytest.mark.parametrize("name", ["", "9f", "-f", "a b", "f/g", "ö", "f" * 129, "f\n"])
def test_bad_function_names_are_refused_with_their_place(name: str) -> None:
    message = refusal(declare({"name": "good"}, {"name": name})).message
    assert message == f"* GenerateContentRequest.tools[0].function_declarations[1].name: {INVALID_NAME}\n"


def test_a_function_may_be_declared_once_only() -> None:
    assert refusal(declare({"name": "f"}, {"name": "f"})).message == "Duplicate function declaration found: f"


def test_the_two_kinds_of_parameters_exclude_each_other() -> None:
    body = declare({"name": "f", "parameters": {"type": "OBJECT"}, "parametersJsonSchema": {"type": "object"}})
    assert "function_declarations[0].parameters_json_schema" in refusal(body).message


@pytest.mark.parametrize("schema", [None, {"type": "object", "properties": {}}])
def test_functions_without_parameters_pass_in_both_forms(schema: dict[str, Any] | None) -> None:
    accept(declare({"name": "f", "parameters": schema}))
    accept(declare({"name": "f", "parameters_json_schema": schema}))


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "array"}, "parameters.properties[x].items: missing field."),
        ({"anyOf": [{"type": "ARRAY"}]}, "parameters.properties[x].any_of[0].items: missing field."),
        ({"type": "array", "items": {"type": "array"}}, "parameters.properties[x].items.items: missing field."),
        (
            {"type": "object", "properties": {"a": {}}, "required": ["a", "b"]},
            "parameters.properties[x].required[1]: property is not defined",
        ),
        ({"type": "string", "enum": ["a", ""]}, "parameters.properties[x].enum[1]: cannot be empty"),
    ],
)
def test_the_openapi_subset_has_rules_of_its_own(schema: dict[str, Any], place: str) -> None:
    body = declare({"name": "f", "parameters": {"type": "object", "properties": {"x": schema}}})
    assert refusal(body).message == f"* GenerateContentRequest.tools[0].function_declarations[0].{place}\n"
    accept(declare({"name": "f", "parametersJsonSchema": {"type": "object", "properties": {"x": schema}}}))


def test_nothing_but_a_description_and_a_default_stands_beside_a_reference() -> None:
    definitions = {"Option": {"type": "string"}}

    def schema(node: dict[str, Any]) -> dict[str, Any]:
        listed = {"type": "array", "items": {"$ref": "#/$defs/Option", **node}}
        return declare({"name": "f", "parametersJsonSchema": {"properties": {"$ref": listed}, "$defs": definitions}})

    accept(schema({}))
    accept(schema({"description": "one", "default": "a", "$comment": "x"}))
    assert refusal(schema({"type": "string"})).message.startswith("Schema.ref 'Option' was set alongside unsupported")


def config(mode: str | None, *names: str) -> dict[str, Any]:
    return {"toolConfig": {"functionCallingConfig": {"mode": mode, "allowedFunctionNames": list(names)}}}


def test_modes_and_allowed_names_go_together() -> None:
    for mode in ("ANY", "VALIDATED", "any"):
        accept({**declare({"name": "f"}), **config(mode, "f")})
    for mode in ("AUTO", "NONE", None):
        accept({**declare({"name": "f"}), **config(mode)})
        assert (
            "allowed_function_names should only be set"
            in refusal({**declare({"name": "f"}), **config(mode, "f")}).message
        )
    assert "`g`" in refusal({**declare({"name": "f"}), **config("ANY", "g")}).message
    assert "FunctionCallingConfig.Mode" in refusal({**declare({"name": "f"}), **config("SOMETIMES")}).message


def test_a_call_can_only_be_forced_if_there_is_a_function() -> None:
    assert refusal(config("ANY")).message == NO_DECLARATIONS
    accept(config("NONE"))
    accept(config("AUTO"))


def thinking(**fields: Any) -> dict[str, Any]:
    return {"generationConfig": {"thinkingConfig": fields}}


LEVELS = {
    "gemini-4-argon": {"low", "medium", "high"},
    "gemini-3.8-flash": {"low", "medium", "high"},
    "gemini-3.7-flash": {"low", "medium", "high"},
    "gemini-3.6-flash": {"minimal", "low", "medium", "high"},
    "gemini-3.5-flash": {"minimal", "low", "medium", "high"},
    "gemini-3.1-flash-lite": {"minimal", "low", "medium", "high"},
    "gemini-3.1-pro-preview": {"low", "medium", "high"},
    "gemini-3-flash-preview": {"minimal", "low", "medium", "high"},
    "gemini-2.5-flash": set(),
    "gemini-2.5-pro": set(),
}


@pytest.mark.parametrize("model", LEVELS)
@pytest.mark.parametrize("level", ["minimal", "low", "medium", "HIGH", "xhigh"])
def test_each_model_has_its_thinking_levels(model: str, level: str) -> None:
    if level.lower() in LEVELS[model]:
        accept(thinking(thinkingLevel=level), model)
    else:
        assert "hinking level" in refusal(thinking(thinking_level=level), model).message


@pytest.mark.parametrize(
    ("model", "budget", "words"),
    [
        ("gemini-2.5-pro", 0, "Budget 0 is invalid. This model only works in thinking mode."),
        ("gemini-2.5-pro", 127, "The thinking budget (127) is invalid."),
        ("gemini-2.5-pro", 32769, "The thinking budget (32769) is invalid."),
        ("gemini-2.5-flash", 24577, "The thinking budget (24577) is invalid."),
        ("gemini-2.5-flash", -2, "The thinking budget (-2) is invalid."),
        ("gemini-4-argon", 1024, "Thinking budget is not supported for this model."),
        ("gemini-4-argon", 0, "Thinking budget is not supported for this model."),
    ],
)
def test_budgets_outside_of_a_models_range_are_refused(model: str, budget: int, words: str) -> None:
    assert refusal(thinking(thinkingBudget=budget), model).message.startswith(words)


@pytest.mark.parametrize(
    ("model", "budget"),
    [("gemini-2.5-pro", 128), ("gemini-2.5-pro", -1), ("gemini-2.5-flash", 0), ("gemini-2.5-flash-lite", 24576)]
    + [(f"gemini-{name}", 0) for name in ("3.5-flash-lite", "3.1-flash-lite", "3.6-flash", "3-flash-preview")],
)
def test_budgets_inside_of_a_models_range_pass(model: str, budget: int) -> None:
    accept(thinking(thinkingBudget=budget), model)


def test_level_and_budget_together_are_refused() -> None:
    assert refusal(thinking(thinkingLevel="low", thinkingBudget=128)).message == BOTH_THINKING


@pytest.mark.parametrize("model", [model.name for model in CURRENT])
@pytest.mark.parametrize("version", ["v1", "v1beta"])
def test_every_listed_model_answers_on_both_versions(model: str, version: str) -> None:
    accept({}, model, version)


@pytest.mark.parametrize("alias", ["gemini-flash-latest", "gemini-flash-lite-latest", "gemini-pro-latest"])
def test_aliases_exist_on_v1beta_only(alias: str) -> None:
    accept({}, alias)
    with pytest.raises(Rejected) as caught:
        check_request("v1", alias, "generateContent", {"contents": HELLO})
    assert caught.value.http_code == 404
    assert caught.value.message == (
        f"models/{alias} is not found for API version v1, or is not supported for generateContent. Call "
        "ModelService.ListModels to see the list of available models and their supported methods."
    )


@pytest.mark.parametrize("model", ["gemini-3.8-flahs", "gemini-9-pro", "gemini-3.9-flash", "gpt-6", "", "gemini-4"])
def test_unknown_models_are_not_found(model: str) -> None:
    assert refusal({}, model).status == "NOT_FOUND"


def test_a_stream_of_an_unknown_model_is_answered_in_the_words_of_the_unary_call() -> None:
    message = refusal({}, "gemini-9-pro", method="streamGenerateContent").message
    assert message.startswith("models/gemini-9-pro is not found for API version v1")
    assert "or is not supported for generateContent. Call ModelService.ListModels" in message
    assert "not supported for countTokens" in refusal({}, "gemini-9-pro", method="countTokens").message


def test_an_unknown_method_of_a_known_model_is_not_found() -> None:
    assert "not supported for embedContent" in refusal({}, method="embedContent").message


@pytest.mark.parametrize(
    ("field", "value"),
    [("temperature", 2.1), ("temperature", -0.1), ("topP", 1.5), ("maxOutputTokens", 0)],
)
def test_generation_numbers_have_ranges(field: str, value: float) -> None:
    assert "* GenerateContentRequest.generation_config." in refusal({"generationConfig": {field: value}}).message


def test_too_long_an_input_is_refused_with_both_numbers() -> None:
    contents = [{"parts": [{"text": "word " * 1_000_000}]}]
    assert refusal({"contents": contents}).message.startswith("The input token count (12500")
    assert refusal({"contents": contents}).message.endswith("exceeds the maximum number of tokens allowed (1048576).")


def test_media_do_not_count_by_their_bytes() -> None:
    data = {"mimeType": "image/png", "data": "A" * 8_000_000}
    accept({"contents": [{"parts": [{"inlineData": data}]}]})


def test_a_request_with_a_cache_brings_no_tools_of_its_own() -> None:
    assert refusal({"cachedContent": "cachedContents/a", **declare({"name": "f"})}).message == CACHE_CONFLICT
    accept({"cachedContent": "cachedContents/a", "tools": None})


def test_only_gemini_4_continues() -> None:
    assert refusal({"continuationToken": "AAAA"}).http_code == 400
    accept({"continuationToken": "AAAA"}, "gemini-4-argon")


def test_a_reference_in_a_result_must_name_a_part_of_it() -> None:
    def contents(response: dict[str, Any], *names: str) -> dict[str, Any]:
        parts = [{"inlineData": {"mimeType": "image/png", "data": "AAAA", "displayName": name}} for name in names]
        result = {"functionResponse": {"name": "f", "response": response, "parts": parts}}
        call = {"functionCall": {"name": "f"}, "thoughtSignature": "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="}
        return {"contents": [*HELLO, {"role": "model", "parts": [call]}, {"parts": [result]}]}

    accept(contents({"image": {"$ref": "a.png"}}, "a.png"))
    assert "The referenced name #/x in function_response" in refusal(contents({"output": [{"$ref": "#/x"}]})).message


def test_the_canonical_body_is_handed_on() -> None:
    model = find_model("v1", "gemini-3.8-flash")
    assert model is not None
    parsed = read_request("v1", model, "generateContent", {"contents": HELLO, "toolConfig": {}})
    assert parsed == {"contents": HELLO, "tool_config": {}}


names = sorted({spelling for fields in MESSAGES.values() for name in fields for spelling in (name, camel_case(name))})
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
words = st.sampled_from(["user", "model", "ANY", "low", "OBJECT", "array", "f", "AAAA", "1", "nan"])
anything = st.recursive(
    scalars | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(names) | st.text(max_size=3), inner),
    max_leaves=25,
)
part = st.dictionaries(st.sampled_from(sorted(MESSAGES["Part"])), anything, max_size=3)
content = st.fixed_dictionaries({"role": words, "parts": st.lists(part | anything, max_size=3)})
request = st.dictionaries(st.sampled_from(sorted(MESSAGES["GenerateContentRequest"])), anything, max_size=4)
methods = st.sampled_from(["generateContent", "countTokens"])


@given(request, st.lists(content, max_size=3), st.sampled_from([*LEVELS, "gemini-1.5-pro"]), methods)
def test_no_body_breaks_the_rules_themselves(
    body: dict[str, Any], contents: list[Any], model: str, method: str
) -> None:
    try:
        check_request("v1", model, method, {"contents": contents, **body})
    except Rejected as rejected:
        assert rejected.http_code == 400
        assert rejected.message
