import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemcode.agent.errors import ModelError
from gemcode.agent.messages import Blob, ModelRequest, Opaque, Text, Thought, ToolCall, ToolDeclaration, UserMessage
from gemcode.agent.model import Finish, FinishKind, ModelReplied, TextDelta, ThoughtDelta
from gemcode.gemini import wire
from gemcode.gemini.reply import StreamDecoder, decode_part, decode_usage
from tests.gemini.samples import answered, comparable
from tests.gemini.test_wire import json_values, raw_parts

REQUEST = ModelRequest("gemini-3.8-flash", (), tools=(ToolDeclaration("now", "", {}),))


def event(*parts: Any, **candidate: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts)}, **candidate}]}


def decode(*events: Any) -> ModelReplied:
    decoder = StreamDecoder(REQUEST)
    for each in events:
        decoder.feed(each)
    return decoder.finish()


def test_text_and_thoughts_are_told_as_they_come() -> None:
    deltas = StreamDecoder(REQUEST).feed(event({"text": "hm", "thought": True}, {"text": ""}, {"text": "yes"}))
    assert deltas == [ThoughtDelta("hm"), TextDelta("yes")]


def test_plain_text_is_merged_from_event_to_event_and_nothing_else_is() -> None:
    reply = decode(
        event({"text": "a"}),
        event({"text": "b"}),
        event({"text": "c", "thoughtSignature": "QQ=="}),
        event({"text": "d"}, {"text": "e"}),
        event({"text": "f", "thought": True}),
        event({"text": "g", "thought": True}),
        event({"text": "h", "thought": False}, finishReason="STOP"),
    )
    assert [part.raw for part in reply.message.parts] == [
        {"text": "ab"},
        {"text": "c", "thoughtSignature": "QQ=="},
        {"text": "d"},
        {"text": "e"},
        {"text": "fg", "thought": True},
        {"text": "h", "thought": False},
    ]


REASONS = {
    "SAFETY": FinishKind.BLOCKED,
    "PROHIBITED_CONTENT": FinishKind.BLOCKED,
    "BLOCKLIST": FinishKind.BLOCKED,
    "SPII": FinishKind.BLOCKED,
    "RECITATION": FinishKind.BLOCKED,
    "LANGUAGE": FinishKind.BLOCKED,
    "MODEL_ARMOR": FinishKind.BLOCKED,
    "MAX_TOKENS": FinishKind.CUT,
    "MALFORMED_FUNCTION_CALL": FinishKind.MALFORMED,
    "UNEXPECTED_TOOL_CALL": FinishKind.MALFORMED,
    "TOO_MANY_TOOL_CALLS": FinishKind.OTHER,
    "MISSING_THOUGHT_SIGNATURE": FinishKind.OTHER,
    "MALFORMED_RESPONSE": FinishKind.OTHER,
    "FINISH_REASON_UNSPECIFIED": FinishKind.OTHER,
    "OTHER": FinishKind.OTHER,
    "NEVER_SEEN": FinishKind.OTHER,
    "CONTINUATION": FinishKind.CUT,
}


@pytest.mark.parametrize(("reason", "kind"), REASONS.items())
def test_a_reason_other_than_stop_keeps_the_text_and_drops_the_calls(reason: str, kind: FinishKind) -> None:
    call = {"functionCall": {"name": "now", "args": {}}}
    reply = decode(event({"text": "half"}, call, finishReason=reason, finishMessage="why"))
    assert reply.finish == Finish(kind, reason, "why")
    assert [type(part) for part in reply.message.parts] == [Text]


def test_the_last_finish_reason_counts_and_later_text_is_kept() -> None:
    reply = decode(event({"text": "a"}, finishReason="STOP"), event({"text": "b"}, finishReason="MAX_TOKENS"))
    assert (reply.finish.reason, reply.message.text) == ("MAX_TOKENS", "ab")


def test_white_space_alone_is_an_empty_answer() -> None:
    assert decode(event({"text": " \n"}, finishReason="STOP")).finish.kind is FinishKind.EMPTY


def test_a_blocked_prompt_is_blocked_with_its_reason() -> None:
    finish = decode({"promptFeedback": {"blockReason": "JAILBREAK"}}).finish
    assert finish == Finish(FinishKind.BLOCKED, "JAILBREAK")


def test_a_call_with_arguments_that_never_end_is_malformed() -> None:
    reply = decode(event({"functionCall": {"name": "now", "willContinue": True}}, finishReason="STOP"))
    assert reply.finish.kind is FinishKind.MALFORMED
    assert reply.message.calls == ()


def test_arguments_in_pieces_may_come_in_one_part() -> None:
    pieces = [{"jsonPath": "$.a", "numberValue": 1}]
    call = decode(event({"functionCall": {"name": "now", "partialArgs": pieces}}, finishReason="STOP")).message.calls[0]
    assert (call.args, call.raw) == ({"a": 1}, {"functionCall": {"name": "now", "args": {"a": 1}}})


def test_only_a_name_that_is_declared_loses_its_prefix() -> None:
    names = ["default_api:now", "default_api.now", "default_api:other", "now"]
    reply = decode(event(*({"functionCall": {"name": name}} for name in names), finishReason="STOP"))
    assert [call.name for call in reply.message.calls] == ["now", "now", "default_api:other", "now"]


def test_ids_are_unique_and_those_of_the_service_are_kept() -> None:
    ids = ["x", None, "x", "", 7]
    calls = decode(event(*({"functionCall": {"id": i, "name": "now"}} for i in ids), finishReason="STOP")).message.calls
    assert calls[0].id == "x"
    assert len({call.id for call in calls}) == 5
    assert [call.raw["functionCall"]["id"] for call in calls if call.raw] == ids


@pytest.mark.parametrize(
    "failed",
    [
        {"error": {"code": 499, "message": "The operation was cancelled.", "status": "CANCELLED"}},
        [{"error": {"code": 499, "message": "x"}}],
        {"usageMetadata": {}, "error": {"code": 503}},
        {"error": {}},
        "text",
        7,
        None,
    ],
)
def test_an_event_that_tells_of_a_failure_raises(failed: Any) -> None:
    with pytest.raises(ModelError):
        decode(event({"text": "a"}), failed)


def test_the_list_form_is_as_good_as_single_events() -> None:
    assert decode([event({"text": "a"}), event({"text": "b"}, finishReason="STOP")]).message.text == "ab"


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        ({"text": "a"}, Text),
        ({"text": "a", "thought": True}, Thought),
        ({"text": 7}, Opaque),
        ({"functionCall": {"name": "now"}}, ToolCall),
        ({"functionCall": {"name": ""}}, Opaque),
        ({"functionCall": {}}, Opaque),
        ({"functionCall": "now"}, Opaque),
        ({"inlineData": {"mimeType": "image/png", "data": "-_8"}}, Blob),
        ({"inlineData": {"mimeType": "image/png", "data": "!!"}}, Opaque),
        ({"inlineData": {"mimeType": "image/png", "data": "a"}}, Opaque),
        ({"inlineData": {"mimeType": "image/png", "data": "ä"}}, Opaque),
        ({"executableCode": {"code": "1"}}, Opaque),
    ],
)
def test_a_part_is_what_it_holds(raw: dict[str, Any], kind: type) -> None:
    part = decode_part(raw)
    assert type(part) is kind
    assert part.raw == raw


def test_counters_that_are_missing_or_odd_are_zero() -> None:
    usage = decode_usage({"promptTokenCount": 3, "totalTokenCount": "9", "thoughtsTokenCount": None})
    assert (usage.prompt, usage.total, usage.thought) == (3, 0, 0)


def test_an_event_without_usage_keeps_the_last_total() -> None:
    first = {**event({"text": "a"}), "usageMetadata": {"promptTokenCount": 3, "totalTokenCount": 4}}
    assert decode(first, {**event(finishReason="STOP"), "usageMetadata": {}}).usage.total == 4


@given(st.lists(raw_parts, max_size=8), st.data())
def test_however_the_events_are_cut_the_same_is_sent_back(parts: list[dict[str, Any]], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(parts)), max_size=4)))
    edges = [0, *cuts, len(parts)]
    chunks = [event(*parts[start:end]) for start, end in itertools.pairwise(edges)]
    reply = decode(*chunks, event({"text": "."}, finishReason="STOP"))
    contents = wire.encode_request(ModelRequest("gemini-3.8-flash", answered(reply.message)))["contents"]
    sent = next(content for content in contents if content["role"] == "model")["parts"]
    assert comparable(sent) == comparable([*parts, {"text": "."}])
    results = [part for content in contents if content["role"] == "user" for part in content["parts"]]
    assert len([part for part in results if "functionResponse" in part]) == len(reply.message.calls)


weird_events = st.recursive(
    json_values | raw_parts,
    lambda inner: st.dictionaries(
        st.sampled_from(
            ["candidates", "content", "parts", "finishReason", "usageMetadata", "promptFeedback", "blockReason",
             "functionCall", "partialArgs", "name", "args", "willContinue", "continuationToken", "finishMessage"]
        ),
        inner,
    )
    | st.lists(inner, max_size=3),
    max_leaves=20,
)  # fmt: skip


@given(st.lists(weird_events, max_size=5))
def test_no_event_of_any_shape_breaks_the_decoder(events: list[Any]) -> None:
    try:
        reply = decode(*events)
    except ModelError:
        return
    wire.dump_body(wire.encode_request(ModelRequest("gemini-3.8-flash", [UserMessage.of("x"), reply.message])))
