import base64
import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemcode.agent.errors import ModelError
from gemcode.agent.messages import (
    Blob,
    ChoiceMode,
    Generation,
    Message,
    ModelMessage,
    ModelRequest,
    Opaque,
    Text,
    Thought,
    ToolCall,
    ToolChoice,
    ToolDeclaration,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from gemcode.gemini import wire
from gemcode.gemini.reply import decode_part

NEW, OLD = "gemini-3.8-flash", "gemini-2.5-flash"
TOOLS = (
    ToolDeclaration("read_file", "Reads a file.", {"type": "object"}),
    ToolDeclaration("now", "Tells the time.", {}),
)


def encode(*messages: Message, model: str = NEW, **request: Any) -> dict[str, Any]:
    return wire.encode_request(ModelRequest(model, messages, **request))


def contents(*messages: Message, model: str = NEW) -> list[dict[str, Any]]:
    return encode(*messages, model=model)["contents"]


def test_the_stable_part_comes_first_and_the_contents_last() -> None:
    body = encode(
        UserMessage.of("hi"), system="Be kind.", tools=TOOLS, generation=Generation(temperature=0.5, top_p=0.9)
    )
    assert list(body) == ["systemInstruction", "tools", "toolConfig", "generationConfig", "contents"]


def test_what_is_not_set_is_not_sent() -> None:
    assert encode(UserMessage.of("hi")) == {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}


def test_tools_are_declared_with_their_json_schema_untouched() -> None:
    declarations = encode(UserMessage.of("hi"), tools=TOOLS)["tools"][0]["functionDeclarations"]
    assert declarations == [
        {"name": "read_file", "description": "Reads a file.", "parametersJsonSchema": {"type": "object"}},
        {"name": "now", "description": "Tells the time."},
    ]


@pytest.mark.parametrize(
    ("choice", "model", "config"),
    [
        (ToolChoice(), NEW, {"mode": "VALIDATED"}),
        (ToolChoice(), OLD, {"mode": "VALIDATED"}),
        (ToolChoice(), "gemini-2.0-flash", {"mode": "AUTO"}),
        (ToolChoice(), "gemini-flash-latest", {"mode": "VALIDATED"}),
        (ToolChoice(names=("now",)), NEW, {"mode": "VALIDATED", "allowedFunctionNames": ["now"]}),
        (ToolChoice(names=("now",)), "gemini-2.0-flash", {"mode": "AUTO"}),
        (ToolChoice(ChoiceMode.REQUIRED), NEW, {"mode": "ANY"}),
        (ToolChoice(ChoiceMode.REQUIRED, ("now",)), NEW, {"mode": "ANY", "allowedFunctionNames": ["now"]}),
        (ToolChoice(ChoiceMode.NONE, ("now",)), NEW, {"mode": "NONE"}),
    ],
)
def test_the_choice_of_tools_becomes_a_mode(choice: ToolChoice, model: str, config: dict[str, Any]) -> None:
    body = encode(UserMessage.of("hi"), model=model, tools=TOOLS, tool_choice=choice)
    assert body["toolConfig"] == {"functionCallingConfig": config}


def test_without_tools_no_choice_is_sent() -> None:
    assert "toolConfig" not in encode(UserMessage.of("hi"), tool_choice=ToolChoice(ChoiceMode.REQUIRED))


@pytest.mark.parametrize(
    ("generation", "model", "thinking"),
    [
        (Generation(thinking_level="high"), NEW, {"thinkingLevel": "high"}),
        (Generation(thinking_level="low", thinking_budget=9), NEW, {"thinkingLevel": "low"}),
        (Generation(thinking_budget=0), NEW, {"thinkingLevel": "low"}),
        (Generation(thinking_budget=0), "gemini-3.5-flash", {"thinkingLevel": "minimal"}),
        (Generation(thinking_budget=5000), "gemini-9-unknown", {"thinkingLevel": "medium"}),
        (Generation(thinking_budget=10**6), NEW, {"thinkingLevel": "high"}),
        (Generation(thinking_budget=-1), NEW, None),
        (Generation(thinking_level="high"), OLD, {"thinkingBudget": 24576}),
        (Generation(thinking_level="high", thinking_budget=0), OLD, {"thinkingBudget": 0}),
        (Generation(thinking_budget=-1, include_thoughts=True), OLD, {"thinkingBudget": -1, "includeThoughts": True}),
        (Generation(thinking_level="strange"), OLD, None),
    ],
)
def test_thinking_is_put_in_the_terms_of_the_model(
    generation: Generation, model: str, thinking: dict[str, Any] | None
) -> None:
    body = encode(UserMessage.of("hi"), model=model, generation=generation)
    assert body.get("generationConfig", {}).get("thinkingConfig") == thinking


def test_all_of_the_generation_settings_are_sent() -> None:
    generation = Generation(10, 0.5, 0.9, ("END",), response_schema={"type": "object"})
    assert encode(UserMessage.of("hi"), generation=generation)["generationConfig"] == {
        "temperature": 0.5,
        "topP": 0.9,
        "maxOutputTokens": 10,
        "stopSequences": ["END"],
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object"},
    }


def test_parts_made_by_hand_are_encoded_from_their_fields() -> None:
    user = UserMessage((Text("see"), Blob("image/png", b"\x00\xff"), Opaque({"fileData": {"fileUri": "u"}})))
    model = ModelMessage((Thought("hm"), Text("yes", signature="U0lH"), ToolCall("c", "now", {"a": 1}, "U0lH")))
    assert contents(user, model) == [
        {
            "role": "user",
            "parts": [
                {"text": "see"},
                {"inlineData": {"mimeType": "image/png", "data": "AP8="}},
                {"fileData": {"fileUri": "u"}},
            ],
        },
        {
            "role": "model",
            "parts": [
                {"text": "hm", "thought": True},
                {"text": "yes", "thoughtSignature": "U0lH"},
                {"functionCall": {"id": "c", "name": "now", "args": {"a": 1}}, "thoughtSignature": "U0lH"},
            ],
        },
    ]


def test_a_user_message_without_parts_is_sent_as_an_empty_text() -> None:
    assert contents(UserMessage(())) == [{"role": "user", "parts": [{"text": ""}]}]


def test_the_first_call_of_a_step_made_by_hand_is_marked_from_3_on() -> None:
    step = ModelMessage((ToolCall("a", "now", {}), ToolCall("b", "now", {})))
    messages = (UserMessage.of("1"), step, ToolMessage(()), UserMessage.of("2"), step)
    marks = [
        [part.get("thoughtSignature") for part in content["parts"]]
        for content in contents(*messages)
        if content["role"] == "model"
    ]
    assert marks == [[wire.ESCAPE_SIGNATURE, None]] * 2
    assert base64.b64decode(wire.ESCAPE_SIGNATURE) == b"skip_thought_signature_validator"
    assert "thoughtSignature" not in json.dumps(contents(*messages, model=OLD))


def test_a_call_that_came_unsigned_is_left_alone() -> None:
    raw = {"functionCall": {"name": "now", "args": {}}}
    assert contents(ModelMessage((ToolCall("a", "now", {}, raw=raw),)))[0]["parts"] == [raw]


def test_results_repeat_the_id_and_the_name_of_the_wire_in_call_order() -> None:
    calls = ModelMessage(
        (
            ToolCall("one", "now", {}, raw={"functionCall": {"id": "one", "name": "default_api:now"}}),
            ToolCall("local-1", "now", {}, raw={"functionCall": {"name": "now"}}),
            ToolCall("local-2", "now", {}, raw={"functionCall": {"id": "one", "name": "now"}}),
            ToolCall("hand", "now", {}),
        )
    )
    order = ("stranger", "hand", "local-2", "local-1", "one")
    results = ToolMessage(tuple(ToolResult(call_id, "now", {"output": call_id}) for call_id in order))
    responses = [part["functionResponse"] for part in contents(calls, results)[1]["parts"]]
    assert responses == [
        {"id": "one", "name": "default_api:now", "response": {"output": "one"}},
        {"name": "now", "response": {"output": "local-1"}},
        {"id": "one", "name": "now", "response": {"output": "local-2"}},
        {"id": "hand", "name": "now", "response": {"output": "hand"}},
        {"id": "stranger", "name": "now", "response": {"output": "stranger"}},
    ]


def test_a_result_pairs_by_the_fields_when_the_json_of_its_call_is_odd() -> None:
    call = ModelMessage((ToolCall("x", "now", {}, raw={"function_call": {"name": "now"}}),))
    result = ToolMessage((ToolResult("x", "now", {}),))
    assert contents(call, result)[1]["parts"] == [{"functionResponse": {"id": "x", "name": "now", "response": {}}}]


def test_an_id_that_is_used_again_pairs_with_the_latest_call() -> None:
    first = ModelMessage((ToolCall("x", "now", {}, raw={"functionCall": {"name": "now"}}),))
    second = ModelMessage((ToolCall("x", "read_file", {}),))
    result = ToolMessage((ToolResult("x", "read_file", {}),))
    assert contents(first, result, second, result)[3]["parts"][0]["functionResponse"]["name"] == "read_file"


def test_media_of_a_result_go_inside_of_it_from_3_on_and_beside_it_before() -> None:
    call = ModelMessage((ToolCall("a", "now", {}), ToolCall("b", "now", {})))
    picture = Blob("image/png", b"x")
    message = ToolMessage((ToolResult("a", "now", {}, (picture,)), ToolResult("b", "now", {})))
    inline = {"inlineData": {"mimeType": "image/png", "data": "eA=="}}
    new = contents(call, message)[1]["parts"]
    assert new[0]["functionResponse"]["parts"] == [inline]
    assert len(new) == 2
    old = contents(call, message, model=OLD)[1]["parts"]
    assert [list(part) for part in old] == [["functionResponse"], ["functionResponse"], ["inlineData"]]


def test_signatures_are_taken_off_and_the_first_calls_marked() -> None:
    message = ModelMessage(
        (
            Text("a", "S", {"text": "a", "thoughtSignature": "S"}),
            Opaque({"novel": 1, "thoughtSignature": "S"}),
            ToolCall("1", "now", {}, "S", {"functionCall": {"name": "now"}, "thoughtSignature": "S"}),
            ToolCall("2", "now", {}, "S"),
        )
    )
    request = wire.without_signatures(ModelRequest(NEW, (UserMessage.of("hi"), message)))
    assert wire.encode_request(request)["contents"][1]["parts"] == [
        {"text": "a"},
        {"novel": 1},
        {"functionCall": {"name": "now"}, "thoughtSignature": wire.ESCAPE_SIGNATURE},
        {"functionCall": {"id": "2", "name": "now", "args": {}}},
    ]
    assert message.parts[0].raw == {"text": "a", "thoughtSignature": "S"}


def test_half_a_surrogate_pair_does_not_stop_the_request() -> None:
    assert b'"a?b"' in wire.dump_body(encode(UserMessage.of("a\udcffb")))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_has_not_is_never_sent(number: float) -> None:
    with pytest.raises(ModelError, match="a number that JSON can't carry"):
        wire.dump_body({"args": {"x": [number]}})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
signatures = st.binary(min_size=1, max_size=8).map(lambda data: base64.b64encode(data).decode())
payloads = st.one_of(
    st.builds(lambda text: {"text": text}, st.text(max_size=8)),
    st.builds(lambda text: {"text": text, "thought": True}, st.text(max_size=8)),
    st.builds(
        lambda args: {"functionCall": {"name": "now", "args": args}},
        st.dictionaries(st.text(max_size=5), json_values, max_size=3),
    ),
    st.builds(lambda data: {"inlineData": {"mimeType": "image/png", "data": data}}, signatures),
    st.dictionaries(st.sampled_from(["hologram", "executableCode", "toolCall"]), json_values, min_size=1),
)
raw_parts = st.builds(
    lambda payload, extra: {**payload, **extra},
    payloads,
    st.fixed_dictionaries({}, optional={"thoughtSignature": signatures, "novelField": json_values}),
)


@given(st.lists(raw_parts, min_size=1, max_size=6))
def test_what_was_received_is_sent_back_untouched(parts: list[dict[str, Any]]) -> None:
    message = ModelMessage(tuple(decode_part(part) for part in parts))
    assert contents(message)[0]["parts"] == parts


hand_made = st.one_of(
    st.builds(Text, st.text(max_size=5), st.none() | signatures),
    st.builds(Thought, st.text(max_size=5), st.none() | signatures),
    st.builds(ToolCall, st.text("abc", min_size=1, max_size=3), st.just("now"), st.just({"a": 1}), signatures),
    st.builds(Blob, st.just("image/png"), st.binary(max_size=9), st.none() | signatures),
)


@given(st.lists(hand_made, min_size=1, max_size=6))
def test_what_was_made_by_hand_survives_encoding_and_decoding(parts: list[Any]) -> None:
    def fields(part: Any) -> tuple[Any, ...]:
        names = [name for name in type(part).__dataclass_fields__ if name != "raw"]
        return (type(part), *(getattr(part, name) for name in names))

    back = [decode_part(part) for part in contents(ModelMessage(tuple(parts)))[0]["parts"]]
    assert [fields(part) for part in back] == [fields(part) for part in parts]


steps = st.lists(
    st.builds(
        lambda question, parts: (UserMessage.of(question), ModelMessage(tuple(parts))),
        st.text(max_size=5),
        st.lists(raw_parts.map(decode_part) | hand_made, max_size=3),
    ),
    max_size=4,
)


@given(steps, st.sampled_from([NEW, OLD]))
def test_a_longer_conversation_begins_with_the_bytes_of_the_shorter_one(steps: list[Any], model: str) -> None:
    history = [message for step in steps for message in step]
    bodies = [
        wire.dump_body(encode(*history[:length], UserMessage.of("x"), model=model, system="s", tools=TOOLS))
        for length in range(0, len(history) + 1, 2)
    ]
    last_question = len(b'{"role":"user","parts":[{"text":"x"}]}]}')
    for shorter, longer in itertools.pairwise(bodies):
        assert longer.startswith(shorter[:-last_question])
