"""Scenario files: what they may say, how mistakes are reported, and which reply answers which request."""

import json
from pathlib import Path
from typing import Any

import pytest

from gemcode.simulator.errors import READY_MADE
from gemcode.simulator.reply import Call, Fault, HttpError, RecordedRequest, ScenarioExhausted, Text, Thought
from gemcode.simulator.scenario import ScenarioBrain, ScenarioError, load_scenario, parse_scenario


def request(text: str = "hi", *results: str, number: int = 1) -> RecordedRequest:
    parts: list[dict[str, Any]] = [{"functionResponse": {"name": name, "response": {}}} for name in results]
    contents = [
        {"role": "user", "parts": [{"text": "an earlier prompt about cats"}]},
        {"role": "model", "parts": [{"text": "dogs"}]},
        {"role": "user", "parts": parts + ([{"text": text}] if text else [])},
    ]
    return RecordedRequest(number, "POST", "/", {}, {}, {"contents": contents}, 0, 0.0)


def brain(*replies: dict[str, Any]) -> ScenarioBrain:
    return ScenarioBrain(parse_scenario({"schema": 1, "replies": list(replies)}))


def said(answering: ScenarioBrain, asked: RecordedRequest) -> str:
    return "".join(step.text for step in answering.answer(asked).steps if isinstance(step, Text))


def test_replies_are_used_in_order() -> None:
    scripted = brain({"text": "one"}, {"text": ["t", "wo"], "repeat": 2}, {"text": "rest", "repeat": "forever"})
    assert [said(scripted, request()) for _ in range(6)] == ["one", "two", "two", "rest", "rest", "rest"]


def test_a_match_answers_before_the_order() -> None:
    scripted = brain(
        {"text": "first"}, {"match": "weather", "text": "sunny"}, {"match": "list_files", "text": "listed"}
    )
    assert said(scripted, request("the weather?")) == "sunny"
    assert said(scripted, request("", "list_files")) == "listed"
    assert said(scripted, request("the weather?")) == "first"


def test_a_match_looks_at_the_newest_user_turn_only() -> None:
    scripted = brain({"match": "cats", "text": "meow"}, {"text": "other"})
    assert said(scripted, request("dogs")) == "other"


def test_a_match_on_a_result_needs_the_whole_name() -> None:
    scripted = brain({"match": "list", "text": "wrong"}, {"text": "right"})
    assert said(scripted, request("", "list_files")) == "right"


def test_an_exhausted_scenario_says_so() -> None:
    scripted = brain({"text": "one"})
    scripted.answer(request())
    with pytest.raises(ScenarioExhausted, match=r"no reply left for request 2 .*'again'.*1 replies"):
        scripted.answer(request("again", number=2))


def test_every_field_of_a_reply_arrives() -> None:
    reply = brain(
        {
            "thoughts": ["a", "b"],
            "text": "c",
            "calls": [{"name": "f", "args": {"x": 1}, "id": "i", "signature": "s"}],
            "finish": "MAX_TOKENS",
            "finish_message": "m",
            "usage": {"promptTokenCount": 5},
            "delay_first": 0.5,
            "delay_between": 1,
            "fault": {"kind": "drip", "after": 2, "seconds": 0.1},
        }
    ).answer(request())
    assert reply.steps == (Thought("a"), Thought("b"), Text("c"), Call("f", {"x": 1}, "i", "s"))
    assert (reply.finish, reply.finish_message, reply.usage) == ("MAX_TOKENS", "m", {"promptTokenCount": 5})
    assert (reply.delay_first, reply.delay_between) == (0.5, 1)
    assert reply.fault == Fault("drip", after=2, seconds=0.1)


@pytest.mark.parametrize("name", READY_MADE)
def test_every_ready_made_error_can_be_named_and_has_the_envelope(name: str) -> None:
    assert brain({"http_error": {"name": name}}).answer(request()).error == name
    rejected = READY_MADE[name]("gemini-3.8-flash", 12.5)
    error = rejected.body()["error"]
    assert error["code"] == rejected.http_code >= 400
    assert error["status"].isupper()
    assert error["message"]


def test_an_error_can_be_spelled_out() -> None:
    error = brain({"http_error": {"code": 418, "status": "TEAPOT", "message": "short", "details": [{"a": 1}]}})
    assert error.answer(request()).error == HttpError(
        418, {"error": {"code": 418, "message": "short", "status": "TEAPOT", "details": [{"a": 1}]}}
    )
    short = brain({"http_error": {"status": 503, "message": "busy"}}).answer(request())
    assert short.error == HttpError(503, {"error": {"code": 503, "message": "busy", "status": ""}})
    page = brain({"http_error": {"status": 502, "body": "<html>", "headers": {"X-Proxy": "1"}}}).answer(request())
    assert page.error == HttpError(502, "<html>", {"X-Proxy": "1"}, "text/html; charset=UTF-8")


def test_the_quota_errors_announce_their_delays() -> None:
    minute = READY_MADE["quota_per_minute"]("m", 48.9)
    assert minute.message.endswith("\nPlease retry in 48.900000000s.")
    assert minute.details[-1] == {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "48s"}
    assert "PerMinute" in minute.details[1]["violations"][0]["quotaId"]
    assert READY_MADE["quota_per_minute"]("m", 0.25).details[-1]["retryDelay"] == "0.25s"
    assert "PerDay" in READY_MADE["quota_per_day"]("m", 1).details[1]["violations"][0]["quotaId"]
    assert READY_MADE["capacity"]("m", 1).details == []


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({}, "schema: Field required."),
        ({"schema": 2, "replies": []}, "schema: Input should be 1."),
        ({"schema": 1}, "replies: Field required."),
        ({"schema": 1, "replies": [{"txet": "a"}]}, "replies[0].txet: Extra inputs are not permitted."),
        ({"schema": 1, "replies": [{}, {"calls": [{"args": {}}]}]}, "replies[1].calls[0].name: Field required."),
        ({"schema": 1, "replies": ["hi"]}, "replies[0]: Input should be an object."),
        ({"schema": 1, "replies": [{"text": 5}]}, "replies[0].text: Input should be a valid string or a valid list."),
        ({"schema": 1, "replies": [{"text": ["a", 5]}]}, "replies[0].text[1]: Input should be a valid string."),
        (
            {"schema": 1, "replies": [{"repeat": "twice"}]},
            "replies[0].repeat: Input should be a valid integer or 'forever'.",
        ),
        (
            {"schema": 1, "replies": [{"http_error": {"status": 502, "headers": {"X": "two\nlines"}}}]},
            "replies[0].http_error: headers must be of plain ASCII, on one line each.",
        ),
        (
            {"schema": 1, "replies": [{"fault": {"kind": "redirect", "location": "/café"}}]},
            "replies[0].fault: a location must be of plain ASCII, on one line.",
        ),
        (
            {"schema": 1, "replies": [{"delay_first": -1}]},
            "replies[0].delay_first: Input should be greater than or equal to 0.",
        ),
        (
            {"schema": 1, "replies": [{"http_error": {}}]},
            "replies[0].http_error: needs a name, a code, or a status that is a number.",
        ),
        (
            {"schema": 1, "replies": [{"text": "a", "raw_events": []}]},
            "replies[0]: text, thoughts and calls, raw_events, http_error and blocked exclude each other.",
        ),
    ],
)
def test_a_mistake_is_one_sentence_with_its_place(data: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(data)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    "reply",
    [
        {"http_error": {"name": "nonsense"}},
        {"fault": {"kind": "nonsense"}},
        {"fault": {"kind": "redirect"}},
        {"http_error": {"name": "internal"}, "fault": {"kind": "cut"}},
        {"fault": {"kind": "error_event", "error": "nonsense"}},
        {"repeat": 0},
        {"repeat": "often"},
        {"text": 5},
        {"finish": 1},
    ],
)
def test_other_mistakes_are_refused_too(reply: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError, match=r"^replies\[0\]"):
        brain(reply)


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    with pytest.raises(ScenarioError, match=r"scenario\.json can't be read: No such file"):
        load_scenario(path)
    path.write_text("{")
    with pytest.raises(ScenarioError, match=r"scenario\.json is not JSON"):
        load_scenario(path)
    path.write_text("[" * 100_000)
    with pytest.raises(ScenarioError, match=r"scenario\.json is not JSON"):
        load_scenario(path)
    path.write_text("[]")
    with pytest.raises(ScenarioError, match="must hold one JSON object"):
        load_scenario(path)
    path.write_text('{"schema": 1, "replies": [{"repeat": 0}]}')
    with pytest.raises(ScenarioError, match=r"scenario\.json: replies\[0\]\.repeat"):
        load_scenario(path)


def test_a_good_file_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps({"schema": 1, "model": "gemini-3.8-flash", "strict": False, "replies": [{"text": "ö"}]}))
    scenario = load_scenario(path)
    assert (scenario.model, scenario.strict, scenario.replies[0].text) == ("gemini-3.8-flash", False, "ö")
