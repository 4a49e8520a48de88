import json
from typing import Any

import pytest

from gemcode.agent.errors import ExitCode, ModelError
from gemcode.gemini import failures

USAGE, API, QUOTA = ExitCode.USAGE, ExitCode.API_ERROR, ExitCode.QUOTA
MODEL = "gemini-3.8-flash"


def envelope(code: int, message: str = "", status: str = "", *details: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


def failure(code: int, message: str = "", status: str = "", *details: Any, model: str = MODEL) -> ModelError:
    return failures.from_response(code, json.dumps(envelope(code, message, status, *details)).encode(), model)


def violation(quota_id: str, value: str = "10", metric: str = "requests") -> dict[str, Any]:
    return {"violations": [{"quotaId": quota_id, "quotaMetric": metric, "quotaValue": value}]}


@pytest.mark.parametrize(
    ("error", "exit_code", "retryable", "says"),
    [
        (failure(400, "Request contains an invalid argument."), API, False, "refused the request: Request contains"),
        (failure(400, "API key not valid. Please pass a valid API key."), USAGE, False, "key is not valid"),
        (failure(400, "?", "INVALID_ARGUMENT", {"reason": "API_KEY_INVALID"}), USAGE, False, "key is not valid"),
        (failure(400, "API key expired. Please renew the API key."), USAGE, False, "key has expired"),
        (failure(400, "User location is not supported.", "FAILED_PRECONDITION"), USAGE, False, "your location"),
        (failure(400, "Please enable billing.", "FAILED_PRECONDITION"), USAGE, False, "enable billing"),
        (
            failure(400, "The input token count (2551556) exceeds the maximum number of tokens allowed (1048576)."),
            API,
            False,
            "2,551,556 tokens, and the model takes 1,048,576",
        ),
        (failure(400, "Request payload size exceeds the limit: 20971520 bytes."), API, False, "too large"),
        (failure(400, "Thinking level MINIMAL is not supported."), USAGE, False, "thinking setting"),
        (failure(401, "Request had invalid credentials."), USAGE, False, "denies access"),
        (failure(403, "Method doesn't allow unregistered callers."), USAGE, False, "no API key"),
        (failure(403, "off", "PERMISSION_DENIED", {"reason": "SERVICE_DISABLED"}), USAGE, False, "switched off"),
        (failure(403, "Your API key was reported as leaked."), USAGE, False, "leaked"),
        (failure(404, f"models/{MODEL} is not found for API version v1"), USAGE, False, f"no model {MODEL}"),
        (failure(404, "Requested entity was not found."), USAGE, False, "does not know this"),
        (failure(408), API, True, "broke off"),
        (failure(413), API, False, "too large"),
        (failure(429, "Resource exhausted. Please try again later."), QUOTA, True, "no capacity"),
        (failure(429, "Quota.", "", violation("RequestsPerMinutePerProject")), QUOTA, True, "limit per minute"),
        (failure(429, "Quota.", "", violation("RequestsPerDayPerProject-FreeTier")), QUOTA, False, "limit per day"),
        (failure(429, "Quota.", "", violation("X", metric="daily_tokens")), QUOTA, False, "limit per day"),
        (failure(429, "Quota.", "", violation("SomethingElse")), QUOTA, True, "limit is reached (10 requests)"),
        (
            failure(429, "Quota.", "", violation("RequestsPerMinute"), violation("RequestsPerDay")),
            QUOTA,
            False,
            "per day is used up (10 requests)",
        ),
        (failure(429, "You exceeded 50 requests per day."), QUOTA, False, "limit per day"),
        (failure(429, "Quota exceeded, limit: 0, model: x"), QUOTA, False, "not part of this key's plan"),
        (failure(429, "Quota.", "", violation("RequestsPerMinute", "0")), QUOTA, False, "not part of this key's plan"),
        (failure(499, "The operation was cancelled.", "CANCELLED"), API, True, "broke off"),
        (failure(500, "Internal error encountered."), API, True, "error 500: Internal error"),
        (failure(502), API, True, "error 502"),
        (failure(503, "This model is currently experiencing high demand."), API, True, "overloaded: This model"),
        (failure(504, "Deadline expired before operation could complete."), API, True, "out of time"),
        (failure(418, "I am a teapot."), API, False, "status 418: I am a teapot"),
        (failures.from_response(502, b"<html>Bad Gateway</html>", MODEL), API, True, "error 502"),
        (failures.from_response(404, b"", MODEL), USAGE, False, f"no model {MODEL}"),
        (failures.from_response(404, b"nothing", ""), USAGE, False, "does not know this"),
        (failures.from_response(500, b"[" * 100_000, MODEL), API, True, "error 500"),
        (failures.from_response(204, b"", MODEL), API, False, "status 204"),
        (failures.from_response(302, b"", MODEL, {"location": "https://elsewhere"}), API, False, "redirect"),
        (failures.from_response(304, b"", MODEL), API, False, "redirect"),
    ],
)  # fmt: skip
def test_every_failure_has_a_code_a_sentence_and_a_rule(
    error: ModelError, exit_code: ExitCode, retryable: bool, says: str
) -> None:
    assert (error.exit_code, error.retryable) == (exit_code, retryable)
    assert says in error.message
    assert error.message.endswith(".")
    assert "\n" not in error.message
    assert error.detail


@pytest.mark.parametrize(
    ("message", "details", "delay"),
    [
        ("", [{"retryDelay": "48s"}], 48.0),
        ("Please retry in 99s.", [{"retryDelay": "34.4s"}], 34.4),
        ("Please retry in 48.939935699s.", [], 48.939935699),
        ("Please retry in 812.5ms.", [], 0.8125),
        ("Please retry in 1.2.3s.", [], 0.0),
        ("Later.", [{"retryDelay": "soon"}, {"retryDelay": 7}, "odd"], None),
    ],
)
def test_the_delay_is_what_the_service_asks_for(message: str, details: list[Any], delay: float | None) -> None:
    assert failure(429, message, "", *details).delay == delay


def test_a_model_that_is_not_there_is_answered_with_the_closest_names() -> None:
    error = failure(404, "models/gemini-3.8-flahs is not found", model="gemini-3.8-flahs")
    assert "gemini-3.8-flash" in error.hint
    assert "gemcode models" in failure(404, "models/qqq is not found", model="qqq").hint


def test_a_known_model_that_is_not_there_is_no_answer_to_itself() -> None:
    for name in ("gemini-3.8-flash", "models/gemini-3.8-flash"):
        error = failure(404, f"models/{name.removeprefix('models/')} is not found", model=name)
        assert error.hint == "Choose another with -m; see gemcode models."


def test_the_thinking_levels_of_the_model_are_named_where_known() -> None:
    assert "low, medium, high" in failure(400, "Thinking level MINIMAL is not supported.").hint
    assert failure(400, "Thinking level is not supported.", model="other").hint == ""


@pytest.mark.parametrize("value", [None, 7, [], {}, {"error": "text"}, {"error": None}, [{}, {}]])
def test_json_without_an_error_tells_of_none(value: Any) -> None:
    assert failures.from_json(value) is None


def test_an_error_of_odd_shape_is_still_an_error() -> None:
    error = failures.from_json([{"error": {"code": "x", "details": "none", "message": None}}])
    assert error is not None
    assert error.message.endswith(".")


@pytest.mark.parametrize(("status", "retryable"), [("UNAVAILABLE", True), ("PERMISSION_DENIED", False), ("ODD", False)])
def test_an_error_that_tells_its_status_only_is_understood(status: str, retryable: bool) -> None:
    error = failures.from_json({"error": {"status": status}})
    assert error is not None
    assert error.retryable is retryable


def test_what_a_shorter_conversation_would_cure_is_marked() -> None:
    message = "The input token count (9) exceeds the maximum number of tokens allowed (8)."
    errors = [failure(400, message), failure(413), failure(400, "Request payload size exceeds the limit: 1 bytes.")]
    assert [error.too_long for error in errors] == [True] * 3
    assert not failure(400, "Request contains an invalid argument.").too_long


def test_an_alias_that_v1_does_not_know_is_answered_with_a_name() -> None:
    error = failure(404, "models/gemini-flash-latest is not found", model="gemini-flash-latest")
    assert error.hint == "Did you mean gemini-3.8-flash?"


def test_a_long_message_is_shown_short_and_kept_whole() -> None:
    error = failure(400, "x" * 5000)
    assert len(error.message) < 400
    assert "x" * 5000 in error.detail


def test_complaints_about_signatures_are_recognised() -> None:
    assert failures.mentions_signature("Function call is missing a thought_signature in functionCall parts.")
    assert failures.mentions_signature("Corrupted thought signature.")
    assert not failures.mentions_signature("Invalid argument.")


NOON = "Wed, 18 Nov 2026 12:00:00 GMT"


@pytest.mark.parametrize(
    ("headers", "delay"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 0 "}, 0.0),
        ({"retry-after": "Wed, 18 Nov 2026 12:00:30 GMT", "date": NOON}, 30.0),
        ({"retry-after": "Wed, 18 Nov 2026 11:00:00 GMT", "date": NOON}, None),
        ({"retry-after": "Wed, 18 Nov 2026 12:00:30 GMT"}, None),
        ({"retry-after": "Wed, 18 Nov 2026 12:00:30", "date": NOON}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "soon", "date": NOON}, None),
        ({"retry-after": "9" * 5000}, 999_999_999.0),
        ({"retry-after": "\u0665"}, None),
        ({}, None),
    ],
)
def test_a_header_that_says_when_is_honoured_by_the_servers_own_clock(
    headers: dict[str, str], delay: float | None
) -> None:
    assert failures.from_response(503, b"busy", MODEL, headers).delay == delay


def test_what_the_service_says_itself_comes_before_the_header() -> None:
    body = b'{"error": {"code": 429, "message": "Please retry in 2.5s."}}'
    assert failures.from_response(429, body, MODEL, {"retry-after": "60"}).delay == 2.5
