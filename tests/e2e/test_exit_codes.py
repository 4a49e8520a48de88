"""One documented exit code for each outcome, with one sentence and one hint, in text and in json."""

import os
from typing import Any

import pytest

from tests.e2e.program import KEY, Place, Result, call, calls, says

SOON = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.01s"}


def failing(name: str, **more: Any) -> dict[str, Any]:
    return {"http_error": {"name": name, **more}, "repeat": "forever"}


def answering(code: int, status: str, message: str = "", **more: Any) -> dict[str, Any]:
    """An error of the service; those that are tried again are tried again soon."""
    error = {"code": code, "status": status, "message": message, "details": [SOON]}
    return {"http_error": error, "repeat": "forever", **more}


def ending(finish: str | None, *texts: str, **more: Any) -> dict[str, Any]:
    return {"text": list(texts), "finish": finish, "repeat": "forever", **more}


def breaking(kind: str, after: int = 1, **more: Any) -> dict[str, Any]:
    return says("Half of ", "it.", fault={"kind": kind, "after": after, **more}, repeat="forever")


API = {
    "503 without end": answering(503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
    "500 without end": answering(500, "INTERNAL", "Internal error encountered."),
    "504 without end": answering(504, "DEADLINE_EXCEEDED", "Deadline expired."),
    "400 of no known kind": failing("invalid_argument"),
    "502 of a proxy": {"http_error": {"status": 502, "body": "<html>Bad Gateway</html>"}, "repeat": "forever"},
    "a redirect": breaking("redirect", 0, location="http://127.0.0.1:9/"),
    "a web page instead": {"http_error": {"status": 200, "body": "<html>Sign in</html>"}, "repeat": "forever"},
}
SETTINGS = {
    "key_invalid": "key",
    "key_expired": "key",
    "key_missing": "key",
    "key_leaked": "leaked",
    "service_disabled": "switched off",
    "unauthenticated": "access",
    "location": "location",
    "billing": "billing",
    "not_found": "model",
}
BLOCKED = ["SAFETY", "RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "LANGUAGE"]
INCOMPLETE = {
    "MAX_TOKENS with text": ending("MAX_TOKENS", "As far as ", "I came"),
    "MAX_TOKENS without": ending("MAX_TOKENS"),
    "TOO_MANY_TOOL_CALLS": ending("TOO_MANY_TOOL_CALLS"),
}
# These are tried again first, with waits that the service does not set: all in one run each.
WEAK = {
    "empty": ending("STOP"),
    "no finish reason": ending(None, "Half of it"),
    "MALFORMED_FUNCTION_CALL": ending("MALFORMED_FUNCTION_CALL", finish_message="print(read_file("),
    "UNEXPECTED_TOOL_CALL": ending("UNEXPECTED_TOOL_CALL"),
    "OTHER": ending("OTHER"),
    "an unknown reason": ending("BRAND_NEW_REASON"),
}


def ask(place: Place, *replies: dict[str, Any], flags: tuple[str, ...] = (), **more: Any) -> Result:
    """In json: one object with a sentence and a hint, and a status that fits the code."""
    result = place.ask("go", "-o", "json", *flags, replies=list(replies), **more)
    if result.code:
        assert result.json["error"]["message"]
        assert result.json["error"]["hint"]
    return result


def outcome(result: Result) -> tuple[int, str]:
    return result.code, result.json["status"]


def test_0_is_a_complete_answer(place: Place) -> None:
    assert outcome(ask(place, says("Done."))) == (0, "ok")


@pytest.mark.parametrize("case", API)
def test_1_is_the_api_or_the_network(place: Place, case: str) -> None:
    result = ask(place, API[case])
    assert outcome(result) == (1, "api_error")
    assert result.json["answer"] == ""


def test_1_after_cuts_of_the_connection_without_end(place: Place) -> None:
    result = ask(place, breaking("cut"))
    assert outcome(result) == (1, "api_error")
    assert len(result.requests) == 5


def test_1_when_nobody_listens(place: Place) -> None:
    result = place.ask("go", "-o", "json", env={"GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:9"})
    assert outcome(result) == (1, "api_error")


def test_0_when_a_retry_helps(place: Place) -> None:
    busy = answering(503, "UNAVAILABLE", "Overloaded.", repeat=2)
    result = ask(place, busy, says("Now."))
    assert outcome(result) == (0, "ok")
    assert len(result.requests) == 3


@pytest.mark.parametrize("name", SETTINGS)
def test_2_is_what_the_user_can_set_right(place: Place, name: str) -> None:
    result = ask(place, failing(name))
    assert outcome(result) == (2, "usage_error")
    assert SETTINGS[name] in (result.json["error"]["message"] + result.json["error"]["hint"])
    assert len(result.requests) == 1


def test_2_for_a_key_that_the_service_refuses(place: Place) -> None:
    result = ask(place, says("Never."), env={"GEMINI_API_KEY": KEY[::-1]}, may_violate=True)
    assert outcome(result) == (2, "usage_error")
    assert [violation.http_code for violation in result.violations] == [400]
    assert KEY[::-1] not in result.stdout + result.stderr


def test_2_for_a_model_that_the_service_does_not_know(place: Place) -> None:
    result = ask(place, says("Never."), flags=("-m", "gemini-3.9-flash"), may_violate=True)
    assert outcome(result) == (2, "usage_error")
    assert "gemini-3.9-flash" in result.json["error"]["message"]
    assert "gemini-3.8-flash" in result.json["error"]["hint"]


@pytest.mark.parametrize("reason", BLOCKED)
def test_3_is_blocked(place: Place, reason: str) -> None:
    result = ask(place, ending(reason, "Some text that is withheld"))
    assert outcome(result) == (3, "blocked")
    assert result.json["finish_reason"] == reason
    assert reason in result.json["error"]["message"]


@pytest.mark.parametrize("reason", ["SAFETY", "PROHIBITED_CONTENT", "OTHER"])
def test_3_is_a_blocked_prompt(place: Place, reason: str) -> None:
    result = ask(place, {"blocked": reason, "repeat": "forever"})
    assert outcome(result) == (3, "blocked")
    assert len(result.requests) == 1


@pytest.mark.parametrize("case", INCOMPLETE)
def test_4_is_incomplete(place: Place, case: str) -> None:
    assert outcome(ask(place, INCOMPLETE[case])) == (4, "incomplete")


def test_4_keeps_the_text_that_came_before_the_cut(place: Place) -> None:
    result = place.ask("go", replies=[INCOMPLETE["MAX_TOKENS with text"]])
    assert (result.code, result.stdout) == (4, "As far as I came\n")
    assert "output limit" in result.stderr


@pytest.mark.parametrize("case", WEAK)
def test_4_is_an_answer_that_stays_useless(place: Place, case: str) -> None:
    result = ask(place, WEAK[case])
    assert outcome(result) == (4, "incomplete")
    assert len(result.requests) == 4


def test_0_when_the_second_answer_is_good(place: Place) -> None:
    result = ask(place, WEAK["MALFORMED_FUNCTION_CALL"] | {"repeat": 1}, says("Better."))
    assert (*outcome(result), result.json["answer"]) == (0, "ok", "Better.")


def test_4_at_the_step_limit(place: Place) -> None:
    steps = [calls(call("list_files", pattern=f"*.{number}")) for number in range(5)]
    result = ask(place, *steps, flags=("--max-steps", "3"))
    assert (*outcome(result), result.json["steps"]) == (4, "incomplete", 3)
    assert "--max-steps" in result.json["error"]["hint"]
    assert len(result.requests) == 3


def test_4_at_the_time_limit(place: Place) -> None:
    result = ask(place, says("Late.", delay_first=3000.0), flags=("--timeout", "0.5"))
    assert outcome(result) == (4, "incomplete")
    assert "--timeout" in result.json["error"]["hint"]


def test_4_at_the_cost_limit(place: Place) -> None:
    dear = calls(call("list_files"), usage={"promptTokenCount": 1_000_000, "totalTokenCount": 1_000_000})
    result = ask(place, dear, says("Never."), flags=("--max-cost", "0.01"))
    assert outcome(result) == (4, "incomplete")
    assert result.json["cost_usd"] > 0.01
    assert len(result.requests) == 1


def test_4_when_the_model_goes_round_in_circles(place: Place) -> None:
    result = ask(place, calls(call("list_files"), repeat="forever"))
    assert outcome(result) == (4, "incomplete")
    assert len(result.requests) < 50


def test_5_is_a_complete_answer_without_its_write(place: Place) -> None:
    result = ask(place, calls(call("write_file", path="x.txt", content="x\n")), says("Not written."))
    assert (*outcome(result), result.json["answer"]) == (5, "write_refused", "Not written.")


@pytest.mark.parametrize(("flags", "path"), [(("--approve", "ask"), "x.txt"), (("-y",), "Makefile")])
def test_5_tells_a_person_what_a_person_can_do(place: Place, flags: tuple[str, ...], path: str) -> None:
    """And not what the model was told. What runs later needs more than --approve edits."""
    result = ask(place, calls(call("write_file", path=path, content="x\n")), says("Not written."), flags=flags)
    assert outcome(result) == (5, "write_refused")
    message = f"Not written: {path}. Declined: nobody is there to confirm it: gemcode runs without a terminal."
    assert result.json["error"]["message"] == message
    assert "--approve edits" in result.json["error"]["hint"] and " all" in result.json["error"]["hint"]


@pytest.mark.parametrize("path", ["../out.txt", ".git/hooks/pre-commit", "/etc/motd", ".gemcode.toml"])
def test_5_also_when_the_path_was_refused(place: Place, path: str) -> None:
    result = ask(place, calls(call("write_file", path=path, content="x\n")), says("Refused."), flags=("-y",))
    assert outcome(result) == (5, "write_refused")
    assert place.files() == {}


def test_0_when_a_later_write_to_the_same_path_succeeded(place: Place) -> None:
    place.write("a.txt", "one\n")
    write = call("write_file", path="a.txt", content="two\n")
    replies = [calls(write), calls(call("read_file", path="./a.txt")), calls(write), says("Written.")]
    assert outcome(ask(place, *replies, flags=("-y",))) == (0, "ok")


def test_1_when_one_event_is_larger_than_the_setting_allows(place: Place) -> None:
    place.settings("[limits]\nevent_bytes = 524288\n")
    result = ask(place, says("x" * 600_000, repeat="forever"))
    assert outcome(result) == (1, "api_error")
    assert "0.5 MiB" in result.json["error"]["message"]


def test_4_wins_over_5(place: Place) -> None:
    """The answer of a 5 is complete; this one is not."""
    result = ask(place, calls(call("write_file", path="x.txt", content="x\n")), INCOMPLETE["MAX_TOKENS with text"])
    assert outcome(result) == (4, "incomplete")


@pytest.mark.parametrize("name", ["quota_per_day", "quota_no_free_tier"])
def test_6_is_a_quota_that_waiting_does_not_help(place: Place, name: str) -> None:
    result = ask(place, failing(name, retry_after=1.0))
    assert outcome(result) == (6, "quota")
    assert len(result.requests) == 1


def test_6_is_a_wait_that_is_longer_than_allowed(place: Place) -> None:
    result = ask(place, failing("quota_per_minute", retry_after=600.0))
    assert outcome(result) == (6, "quota")
    assert "600" in result.json["error"]["message"]
    assert len(result.requests) == 1


def test_0_after_a_short_wait_for_the_quota(place: Place) -> None:
    busy = {"http_error": {"name": "quota_per_minute", "retry_after": 0.2}}
    result = place.ask("go", replies=[busy, says("Now.")])
    assert (result.code, result.stdout) == (0, "Now.\n")
    assert "per minute" in result.stderr


@pytest.mark.parametrize("place_of_error", ["error_event", "bare_error_tail"])
def test_an_error_inside_the_stream_counts_as_one(place: Place, place_of_error: str) -> None:
    result = ask(place, breaking(place_of_error, error="quota_per_day"))
    assert outcome(result) == (6, "quota")
    assert result.json["answer"] == ""


def test_text_says_one_sentence_and_one_hint(place: Place) -> None:
    result = place.ask("go", replies=[failing("quota_per_day")])
    assert (result.code, result.stdout) == (6, "")
    told = [line for line in result.stderr.splitlines() if not line.startswith("! endpoint")]
    assert len(told) <= 3  # sentence, hint, status line
    assert told[0].startswith("✗ ")
    assert told[1].startswith("  ")
    assert "{" not in result.stderr


def test_the_raw_error_is_for_verbose_only(place: Place) -> None:
    assert "RESOURCE_EXHAUSTED" not in place.ask("go", replies=[failing("quota_per_day")]).stderr
    assert "RESOURCE_EXHAUSTED" in place.ask("go", "-v", replies=[failing("quota_per_day")]).stderr


def test_141_is_a_closed_stdout_for_other_commands_too(place: Place) -> None:
    for command in ("tools", "models", "history", "doctor"):
        reading, writing = os.pipe()
        os.close(reading)
        with place.started(command, stdout=writing) as running:
            os.close(writing)
            assert running.finish().code == 141, command
