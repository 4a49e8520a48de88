"""Every dialect, streamed and whole, against all that a model or a network can do: the right end, in order."""

from collections.abc import Iterator
from typing import Any

import pytest

from gemcode.simulator.reply import Call, Fault, HttpError, RecordedRequest, Reply, Text, Thought
from tests.gateway.clients import ALL, ANTHROPIC, BEDROCK, RESPONSES, Plain
from tests.gateway.support import Stage, stage

BAD = Reply(finish="MALFORMED_FUNCTION_CALL", finish_message="call:read{")
GOOD: dict[str, Reply] = {
    "plain": Reply.says("Hel", "lo ", "wörld \U0001f600"),
    "thoughts": Reply(steps=(Thought("I "), Thought("think."), Text("Done."))),
    "one call": Reply.calls(Call("read", {"path": "a"})),
    "parallel calls": Reply.calls(Call("read", {"path": "a"}), Call("read", {"path": "ü\n\u2028"}), Call("read", {})),
    "text and call": Reply(steps=(Thought("hm"), Text("I look."), Call("read", {"path": "x"}))),
    "cut": Reply(steps=(Text("And then"),), finish="MAX_TOKENS"),
    "cut before a word": Reply(steps=(), finish="MAX_TOKENS"),
    "cut in a call": Reply(steps=(Text("so "), Call("read", {"path": "x"})), finish="MAX_TOKENS"),
    "blocked answer": Reply(steps=(Text("First "),), finish="SAFETY"),
    "blocked at once": Reply(steps=(), finish="PROHIBITED_CONTENT"),
    "blocked prompt": Reply(blocked="SAFETY"),
    "other with words": Reply(steps=(Text("words"),), finish="OTHER"),
    "unknown with words": Reply(steps=(Text("words"),), finish="SOMETHING_NEW"),
    "language with words": Reply(steps=(Text("words"),), finish="LANGUAGE"),
}
STOPS = {"cut": "cut", "cut before a word": "cut", "cut in a call": "cut"} | {
    "one call": "calls",
    "parallel calls": "calls",
    "text and call": "calls",
    "blocked answer": "blocked",
    "blocked at once": "blocked",
    "blocked prompt": "blocked",
}
# Broken before a word was sent: told by the HTTP status, or by the stream where the dialect wants it so.
BROKEN_EARLY: dict[str, Reply] = {
    "malformed": BAD,
    "unexpected call": Reply(steps=(Call("unknown", {}),), finish="UNEXPECTED_TOOL_CALL"),
    "empty": Reply(steps=()),
    "no finish": Reply(steps=(), finish=None),
    "other": Reply(steps=(), finish="OTHER"),
    "language": Reply(steps=(), finish="LANGUAGE"),
    "malformed response": Reply(steps=(), finish="MALFORMED_RESPONSE"),
    "call without finish": Reply(steps=(Call("read", {"path": "x"}),), finish=None),
    "hang up": Reply(fault=Fault("hang_up")),
    "reset at once": Reply(steps=(Text("a"),), fault=Fault("reset", after=0)),
    "web page": Reply(error=HttpError(200, "<html>hello</html>", content_type="text/html")),
    "not http": Reply(fault=Fault("not_http")),
    "redirect": Reply(fault=Fault("redirect", location="http://127.0.0.1:9/")),
    "too long": Reply(error="input_too_long"),
    "key": Reply(error="key_invalid"),
    "no model": Reply(error="not_found"),
    "quota": Reply(error="quota_per_minute", retry_after=7),
    "daily": Reply(error="quota_per_day"),
    "internal": Reply(error="internal"),
    "overloaded": Reply(error="overloaded"),
}
# Broken after words were sent.
BROKEN_LATE: dict[str, Reply] = {
    f"{kind} in the middle": Reply(steps=(Text("one "), Text("two "), Text("three")), fault=Fault(kind, after=2))
    for kind in ("reset", "cut", "half_event", "garbage", "error_event", "bare_error_tail", "chunk_lie")
} | {
    "malformed after words": Reply(steps=(Text("I call"),), finish="MALFORMED_FUNCTION_CALL"),
    "malformed response after words": Reply(steps=(Text("I say"),), finish="MALFORMED_RESPONSE"),
    "no finish after words": Reply(steps=(Text("one "),), finish=None),
    "call and reset": Reply(
        steps=(Text("one "), Call("read", {"path": "x"}), Text("x")), fault=Fault("reset", after=2)
    ),
}
SCENARIOS = GOOD | BROKEN_EARLY | BROKEN_LATE


def by_prompt(request: RecordedRequest) -> Reply:
    return SCENARIOS[next(part["text"] for part in request.contents[0]["parts"])]


@pytest.fixture(scope="module")
def running() -> Iterator[Stage]:
    with stage(by_prompt) as made:
        yield made


@pytest.fixture(params=ALL, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("scenario", GOOD)
def test_a_usable_answer_is_told_whole_and_ends_as_it_should(
    running: Stage, client: Plain, scenario: str, stream: bool
) -> None:
    _, told = client.ask(running.url, scenario, stream=stream)
    assert told is not None and not told.failed
    steps = GOOD[scenario].steps
    text = "".join(step.text for step in steps if isinstance(step, Text))
    calls = [(step.name, dict(step.args)) for step in steps if isinstance(step, Call)]
    stop = STOPS.get(scenario, "end")
    assert told.stop == client.stops[stop]
    assert told.calls == (calls if stop == "calls" else []), "calls of an answer that was cut are never delivered"
    if stop == "blocked" and client in (ANTHROPIC, BEDROCK):
        said = f"{text}\n\n" if text else ""
        assert told.text == f"{said}Gemini blocked this answer ({GOOD[scenario].blocked or GOOD[scenario].finish})."
    else:
        assert told.text == text
    if client.name != "chat":
        assert told.thoughts == "".join(step.text for step in steps if isinstance(step, Thought))


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("scenario", BROKEN_EARLY)
def test_a_failure_before_the_first_word_is_an_error_of_the_dialect(
    running: Stage, client: Plain, scenario: str, stream: bool
) -> None:
    response, told = client.ask(running.url, scenario, stream=stream)
    if told is not None:
        assert told.calls == [] and told.text == ""
        if client is BEDROCK:
            assert told.stop == "malformed_tool_use" and scenario in (
                "malformed",
                "unexpected call",
                "malformed response",
            )
        else:
            assert client is RESPONSES and told.failed and scenario == "too long" and stream
        return
    kind, message = client.read_error(response)
    assert kind and message and "upstream-key" not in response.text and "Traceback" not in response.text
    expected = {"too long": 400, "key": 401, "no model": 404, "quota": 429, "daily": 429}
    if scenario in expected:
        assert response.status_code == (403 if client is BEDROCK and scenario == "key" else expected[scenario])
    else:
        assert response.status_code >= 500
    assert response.headers.get("retry-after") == {"quota": "7", "overloaded": "5"}.get(scenario)


@pytest.mark.parametrize("scenario", BROKEN_LATE)
def test_a_stream_that_breaks_ends_with_the_error_of_the_dialect_and_without_calls(
    running: Stage, client: Plain, scenario: str
) -> None:
    _, told = client.ask(running.url, scenario, stream=True)
    assert told is not None and told.text
    assert told.calls == []
    if client is BEDROCK and scenario.startswith("malformed"):
        assert told.stop == "malformed_tool_use"
    else:
        assert told.failed and told.message


@pytest.mark.parametrize("scenario", BROKEN_LATE)
def test_a_whole_answer_that_breaks_is_an_error_of_the_dialect(running: Stage, client: Plain, scenario: str) -> None:
    response, told = client.ask(running.url, scenario, stream=False)
    if told is None:
        assert response.status_code >= 500 and client.read_error(response)[1]
    else:
        assert client is BEDROCK and told.stop == "malformed_tool_use"


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    "first",
    [
        BAD,
        Reply(steps=()),
        Reply(steps=(), finish=None),
        Reply(fault=Fault("hang_up")),
        Reply(steps=(), finish="MISSING_THOUGHT_SIGNATURE"),
        Reply(error="corrupted_signature"),
    ],
    ids=["bad", "empty", "cut", "gone", "unsigned", "corrupted"],
)
def test_a_bad_first_try_is_made_again_before_anything_was_sent(client: Plain, first: Reply, stream: bool) -> None:
    with stage(first, Reply.calls(Call("read", {"path": "x"}))) as made:
        _, told = client.ask(made.url, "go", stream=stream)
        assert told is not None and told.calls == [("read", {"path": "x"})]
        assert len(made.upstream) == 2 and made.simulator.violations == []


def test_what_the_exact_words_for_too_long_a_prompt_are(running: Stage) -> None:
    response, _ = ANTHROPIC.ask(running.url, "too long", stream=True)
    assert ANTHROPIC.read_error(response) == (
        "invalid_request_error",
        "prompt is too long: 2551556 tokens > 1048576 maximum",
    )
    response, _ = RESPONSES.ask(running.url, "too long", stream=False)
    assert RESPONSES.read_error(response)[0] == "context_length_exceeded"
    raw, _ = RESPONSES.ask(running.url, "too long", stream=True)
    assert '"code":"context_length_exceeded"' in raw.text and "server_is_overloaded" not in raw.text
