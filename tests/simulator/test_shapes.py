"""How replies look on the wire, per model generation: events, signatures, ids, counters."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemcode.simulator.catalog import CURRENT, KnownModel, find_model
from gemcode.simulator.payload import decode_bytes
from gemcode.simulator.reply import Call, Pause, Reply, Text, Thought
from gemcode.simulator.shapes import CALLS_MESSAGE, Turn, shape
from gemcode.simulator.signatures import Signatures

NEW = "gemini-3.8-flash"
EARLY = "gemini-3-flash-preview"
OLD = "gemini-2.5-flash"


def known(name: str) -> KnownModel:
    model = find_model("v1beta", name)
    assert model is not None
    return model


def bodies(reply: Reply, model: str = NEW, **turn: Any) -> list[dict[str, Any]]:
    options = {"stream": True, "has_tools": True, "prompt_tokens": 10, **turn}
    return [event.body for event in shape(reply, Turn(known(model), **options))]


def parts(body: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body["candidates"][0]["content"]["parts"]
    return found


def finish(body: dict[str, Any]) -> str | None:
    reason: str | None = body["candidates"][0].get("finishReason")
    return reason


def letters(events: list[dict[str, Any]]) -> str:
    """The shape in the notation of the rulebook: T text, t thought, F call, e empty text, * signed, ! finish."""
    words = []
    for body in events:
        word = ""
        for part in body["candidates"][0].get("content", {}).get("parts", []):
            kind = "F" if "functionCall" in part else "t" if part.get("thought") else "T" if part["text"] else "e"
            word += kind + ("*" if "thoughtSignature" in part else "")
        words.append(word + ("!" if finish(body) else ""))
    return " ".join(words)


TALK = (Thought("hm"), Text("a"), Text("b"))
CALLS = (Call("f", {"x": 1}), Call("g"))


@pytest.mark.parametrize(
    ("steps", "model", "expected"),
    [
        (TALK, NEW, "T T e*!"),
        (TALK, OLD, "T* T!"),
        (TALK, "gemini-2.0-flash", "T T!"),
        (CALLS, NEW, "F* F e!"),
        (CALLS[:1], NEW, "F* e!"),
        (CALLS, OLD, "F*F!"),
        ((Text("look"), *CALLS), NEW, "T F* F e!"),
        ((Text("look"), *CALLS), OLD, "T* FF!"),
        ((), NEW, "!"),
        ((), OLD, "!"),
        ((Thought("only"),), NEW, "!"),
    ],
)
def test_a_stream_has_the_shape_of_its_generation(steps: tuple[Any, ...], model: str, expected: str) -> None:
    assert letters(bodies(Reply(steps=steps), model)) == expected


def test_thoughts_come_first_when_they_are_asked_for() -> None:
    assert letters(bodies(Reply(steps=TALK), wants_thoughts=True)) == "t T T e*!"
    assert letters(bodies(Reply(steps=TALK), OLD, wants_thoughts=True)) == "t T* T!"


def test_2_5_signs_only_with_tools_declared() -> None:
    assert letters(bodies(Reply(steps=TALK), OLD, has_tools=False)) == "T T!"
    assert letters(bodies(Reply(steps=TALK), NEW, has_tools=False)) == "T T e*!"


def test_a_unary_reply_is_one_body_with_merged_text() -> None:
    (body,) = bodies(Reply(steps=TALK), stream=False, wants_thoughts=True)
    assert [(part["text"], "thoughtSignature" in part) for part in parts(body)] == [("hm", False), ("ab", True)]
    (body,) = bodies(Reply(steps=CALLS), stream=False)
    assert letters([body]) == "F*F!"


def test_a_stream_without_a_finish_reason_just_ends() -> None:
    assert letters(bodies(Reply(steps=TALK, finish=None))) == "T T"
    assert letters(bodies(Reply(steps=TALK, finish=None), OLD)) == "T* T"
    assert bodies(Reply(finish=None)) == []


@pytest.mark.parametrize("model", [NEW, OLD])
def test_a_withheld_answer_ends_without_content(model: str) -> None:
    last = bodies(Reply(steps=(Text("a"),), finish="SAFETY"), model)[-1]
    assert last["candidates"] == [{"finishReason": "SAFETY", "index": 0}]
    (body,) = bodies(Reply(finish="MALFORMED_FUNCTION_CALL", finish_message="call f(("), model, stream=False)
    assert body["candidates"] == [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "call f((", "index": 0}]


def test_running_out_of_tokens_while_thinking_leaves_no_parts() -> None:
    (body,) = bodies(Reply(steps=(Thought("long"),), finish="MAX_TOKENS"), OLD, stream=False)
    assert body["candidates"] == [{"content": {"role": "model"}, "finishReason": "MAX_TOKENS", "index": 0}]


def test_a_blocked_prompt_has_feedback_and_no_candidates() -> None:
    (body,) = bodies(Reply(blocked="PROHIBITED_CONTENT"))
    assert body["promptFeedback"] == {"blockReason": "PROHIBITED_CONTENT"}
    assert "candidates" not in body


def test_ids_come_with_3_1_and_later() -> None:
    for model in (NEW, "gemini-3.1-pro-preview", "gemini-4-argon"):
        calls = [
            part["functionCall"]
            for body in bodies(Reply(steps=CALLS), model)
            for part in parts(body)
            if "functionCall" in part
        ]
        assert len({call["id"] for call in calls}) == 2
        assert all(re.fullmatch("[a-z0-9]{8}", call["id"]) for call in calls)
    for model in (EARLY, OLD):
        assert all(
            "id" not in part.get("functionCall", {})
            for body in bodies(Reply(steps=CALLS), model)
            for part in parts(body)
        )


def test_a_call_may_bring_its_own_id_and_signature() -> None:
    first = parts(bodies(Reply.calls(Call("f", {}, id="mine", signature="c2ln")))[0])[0]
    assert first == {"functionCall": {"name": "f", "args": {}, "id": "mine"}, "thoughtSignature": "c2ln"}


def test_the_finish_message_of_calls_is_the_usual_one() -> None:
    for model in (NEW, OLD):
        assert bodies(Reply(steps=CALLS), model)[-1]["candidates"][0]["finishMessage"] == CALLS_MESSAGE
    assert "finishMessage" not in bodies(Reply(steps=TALK))[-1]["candidates"][0]


def test_pauses_delay_the_next_event() -> None:
    events = shape(Reply(steps=(Pause(1), Text("a"), Pause(2), Pause(3), Text("b"))), Turn(known(NEW), stream=True))
    assert [event.pause for event in events] == [1, 5, 0]


def test_raw_events_are_left_alone() -> None:
    raw = [{"any": "thing"}, 5, {"candidates": None}]
    assert bodies(Reply(raw_events=raw)) == raw
    assert bodies(Reply(raw_events=raw), stream=False) == raw[:1]


def test_usage_overrides_touch_the_last_event_only() -> None:
    events = bodies(
        Reply(steps=TALK, usage={"promptTokenCount": 7, "totalTokenCount": None, "toolUsePromptTokenCount": 3})
    )
    assert events[0]["usageMetadata"]["promptTokenCount"] == 10
    last = events[-1]["usageMetadata"]
    assert (last["promptTokenCount"], last["toolUsePromptTokenCount"]) == (7, 3)
    assert "totalTokenCount" not in last


steps = st.lists(
    st.builds(Text, st.text(max_size=40))
    | st.builds(Thought, st.text(max_size=40))
    | st.builds(Call, st.sampled_from(["f", "g"]), st.dictionaries(st.text(max_size=5), st.integers(), max_size=2)),
    max_size=6,
)
models = st.sampled_from([*(model.name for model in CURRENT), "gemini-2.0-flash", "gemini-1.5-pro"])


@given(steps, models, st.booleans(), st.booleans())
def test_every_shape_keeps_the_promises_of_the_wire(
    chosen: list[Any], name: str, stream: bool, wants_thoughts: bool
) -> None:
    events = bodies(Reply(steps=tuple(chosen)), name, stream=stream, wants_thoughts=wants_thoughts, cached_tokens=4)
    assert [finish(body) for body in events[:-1]] == [None] * (len(events) - 1)
    assert finish(events[-1]) == "STOP"
    assert len({(body["responseId"], body["modelVersion"]) for body in events}) == 1
    totals = [body["usageMetadata"]["totalTokenCount"] for body in events]
    assert totals == sorted(totals)
    for body in events:
        usage = body["usageMetadata"]
        assert 0 not in usage.values()
        counted = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount")
        assert usage["totalTokenCount"] == sum(usage.get(counter, 0) for counter in counted)
    sent = [part for body in events for part in body["candidates"][0].get("content", {}).get("parts", [])]
    text = "".join(part["text"] for part in sent if "text" in part and not part.get("thought"))
    assert text == "".join(step.text for step in chosen if isinstance(step, Text))
    calls = [(part["functionCall"]["name"], part["functionCall"]["args"]) for part in sent if "functionCall" in part]
    assert calls == [(step.name, step.args) for step in chosen if isinstance(step, Call)]
    _signatures_are_in_place(sent, known(name))


def _signatures_are_in_place(sent: list[dict[str, Any]], model: KnownModel) -> None:
    judge = Signatures(accept_unknown=False)
    for part in sent:
        if "thoughtSignature" in part:
            call = part.get("functionCall")
            signature = decode_bytes(part["thoughtSignature"])
            assert signature is not None
            assert judge.accepts(model.name, signature, (call["name"], call["args"]) if call else None)
    calls = [part for part in sent if "functionCall" in part]
    if calls and model.needs_signatures:
        assert ["thoughtSignature" in part for part in calls] == [True] + [False] * (len(calls) - 1)
    if model.generation < (2, 5):
        assert not any("thoughtSignature" in part for part in sent)
