"""What a network and a service can do wrong, over real sockets: every run ends in time, with its exit code, with each
text once, without the key, and no tool is run twice. What is not even HTTP any more is in test_raw_network.py."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.e2e.program import Place, call, calls, says

GOOD = says("All ", "good.")
ANSWER = "All good.\n"
READ = call("read_file", path="a.txt")
APPEND = call("write_file", path="log.txt", content="once\n", mode="append")


def refused(code: int, status: str = "", message: str = "", delay: str | None = "0.05s", **more: Any) -> dict[str, Any]:
    """An error of the service; with `delay`, the wait that it asks for."""
    retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}
    details = [*more.pop("details", ()), *([retry] if delay is not None else [])]
    return {"http_error": {"code": code, "status": status, "message": message, "details": details}, **more}


def quota(identifier: str, delay: str | None, **more: Any) -> dict[str, Any]:
    violation = {"quotaMetric": "generate_requests", "quotaId": identifier, "quotaValue": "10"}
    details = [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}]
    return refused(429, "RESOURCE_EXHAUSTED", "Quota.", delay, details=details, **more)


def page(status: int, body: Any, **headers: str) -> dict[str, Any]:
    """An answer that is no error of the service."""
    values = {name.replace("_", "-"): value for name, value in headers.items()}
    return {"http_error": {"status": status, "body": body, "headers": values}}


def named(name: str, **more: Any) -> dict[str, Any]:
    return {"http_error": {"name": name, **more}}


def broken(kind: str, after: int = 0, *texts: str, **more: Any) -> dict[str, Any]:
    return says(*(texts or ("All ", "good.")), fault={"kind": kind, "after": after, **more})


def event(*parts: dict[str, Any], **candidate: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts), "role": "model"}, **candidate}]}


def raw(*events: Any) -> dict[str, Any]:
    return {"raw_events": list(events)}


MALFORMED = {"finish": "MALFORMED_FUNCTION_CALL"}
FOREVER = {"repeat": "forever"}
SHORT = ("--timeout", "2")
MINUTE = "GenerateRequestsPerMinutePerProjectPerModel"


@dataclass(frozen=True)
class Case:
    """What is answered, and what must come of it."""

    name: str
    replies: list[dict[str, Any]]
    code: int = 0
    stdout: str = ANSWER
    requests: int = 2
    told: str = ""  # on stderr
    flags: tuple[str, ...] = field(default=())


CASES = [
    # quotas
    Case("a per-minute quota with a delay in whole seconds", [quota(MINUTE, "1s"), GOOD], told="per minute"),
    Case("a per-minute quota with a fraction of a second", [quota(MINUTE, "0.25s"), GOOD], told="per minute"),
    Case("a delay of hours is not slept on", [quota(MINUTE, "7200s")], 6, "", 1, "7200"),
    Case("a quota without a delay", [quota(MINUTE, None), GOOD]),
    Case("a negative delay", [quota(MINUTE, "-3s"), GOOD]),
    Case("a malformed delay", [quota(MINUTE, "soon"), GOOD]),
    Case("a delay in the message only", [refused(429, "RESOURCE_EXHAUSTED", "Please retry in 0.2s.", None), GOOD]),
    Case("no capacity, without details", [named("capacity"), GOOD], told="capacity"),
    Case("a per-day quota", [quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "20s")], 6, "", 1, "day"),
    Case("a model outside of the plan", [named("quota_no_free_tier")], 6, "", 1, "plan"),
    Case("a per-minute quota that never ends", [quota(MINUTE, "0.05s", **FOREVER)], 6, "", 5, "per minute"),
    Case("Retry-After in seconds", [page(429, {}, Retry_After="1"), GOOD]),
    Case("Retry-After as a date", [page(503, {}, Retry_After="Wed, 21 Oct 2015 07:28:00 GMT"), GOOD]),
    # failures of the server
    Case("an internal error", [named("internal"), GOOD]),
    Case("an overloaded model", [named("high_demand"), GOOD], told="overloaded"),
    Case("a deadline at the server", [named("deadline"), GOOD]),
    Case("a page of a proxy", [page(502, "<html>Bad Gateway</html>"), GOOD]),
    Case("an empty error body", [page(500, ""), GOOD]),
    Case("an error body that is a list", [page(503, [{"error": {"code": 503}}]), GOOD]),
    Case("a request timeout", [refused(408, "", "Request timeout."), GOOD]),
    Case("a request cancelled by the server", [named("cancelled"), GOOD]),
    Case("two kinds of failure in a row", [refused(503), refused(500), GOOD], requests=3),
    Case("an overloaded model that stays so", [refused(503, **FOREVER)], 1, "", 5, "overload"),
    # what no retry can mend
    Case("a wrong key", [named("key_invalid")], 2, "", 1, "API key"),
    Case("an expired key", [named("key_expired")], 2, "", 1, "expired"),
    Case("a leaked key", [named("key_leaked")], 2, "", 1, "leaked"),
    Case("no permission", [refused(403, "PERMISSION_DENIED", "No.", None)], 2, "", 1),
    Case("the API switched off", [named("service_disabled")], 2, "", 1, "switched off"),
    Case("a token instead of a key", [named("unauthenticated")], 2, "", 1),
    Case("an unknown model", [named("not_found")], 2, "", 1),
    Case("a location that is not served", [named("location")], 2, "", 1, "location"),
    Case("a project without billing", [named("billing")], 2, "", 1, "billing"),
    Case("a request that the service refuses", [named("invalid_argument")], 1, "", 1),
    Case("a status nobody knows", [page(418, "teapot")], 1, "", 1),
    # the transport
    Case("the connection closed before a byte", [broken("hang_up"), GOOD]),
    Case("a reset before the first event", [broken("reset", 0), GOOD]),
    Case("a reset in the middle", [broken("reset", 1), GOOD]),
    Case("a cut in the middle", [broken("cut", 1), GOOD]),
    Case("a cut after the finish reason", [broken("cut", 9), GOOD]),
    Case("half an event, then a proper end", [broken("half_event", 1), GOOD]),
    Case("broken JSON between two events", [broken("garbage", 1), GOOD]),
    Case("a chunk shorter than announced", [broken("chunk_lie", 1), GOOD]),
    Case("a body shorter than announced", [broken("content_length_lie"), GOOD]),
    Case("gzip that is none", [broken("gzip_broken"), GOOD]),
    Case("another protocol", [broken("not_http"), GOOD]),
    Case("byte by byte", [broken("drip", 0, seconds=0.0)], requests=1),
    Case("one event, then silence, and a time limit", [broken("silence", 1)], 4, "", 1, "--timeout", SHORT),
    Case("nothing at all, and a time limit", [broken("silence", 0)], 4, "", 1, "--timeout", SHORT),
    Case("an event larger than is taken", [broken("huge_event", 1, size=17 << 20)], 1, "", 1),
    Case("an error as an event", [broken("error_event", 1, error="high_demand"), GOOD], told="overloaded"),
    Case("an error at the end of a stream", [broken("bare_error_tail", 1, error="internal"), GOOD]),
    Case("a wrong key told within a stream", [broken("error_event", 1, error="key_invalid")], 2, "", 1, "API key"),
    Case("a redirect", [broken("redirect", 0, location="http://127.0.0.1:9/elsewhere")], 1, "", 1, "redirect"),
    # answers
    Case("an answer without an end", [says("Al", finish=None), GOOD]),
    Case("answers that never have an end", [says("Al", finish=None, **FOREVER)], 4, "Al\n", 4, "finish reason"),
    Case("an empty answer", [{}, GOOD]),
    Case("thoughts alone", [{"thoughts": ["**Hm**"]}, GOOD]),
    Case("a candidate without content", [raw({"candidates": [{"finishReason": "STOP"}]}), GOOD]),
    Case("an event without candidates", [raw({}, event({"text": "All good."}, finishReason="STOP"))], requests=1),
    Case("a cut answer", [says("Half", finish="MAX_TOKENS")], 4, "Half\n", 1, "go on"),
    Case("a cut answer without any text", [{"finish": "MAX_TOKENS"}], 4, "", 1),
    Case("a blocked answer", [says("Ba", finish="SAFETY")], 3, "Ba\n", 1, "blocked"),
    Case("a blocked prompt", [{"blocked": "PROHIBITED_CONTENT"}], 3, "", 1, "blocked"),
    Case("an answer in a language that is not served", [{"finish": "LANGUAGE"}], 3, "", 1),
    Case("recitation, then in other words", [says("Ba", finish="RECITATION"), GOOD]),
    Case("recitation twice", [{"finish": "RECITATION", **FOREVER}], 3, "", 2, "blocked"),
    Case("a reason nobody knows", [says("Hm", finish="BRAND_NEW")], 4, "Hm\n", 1, "BRAND_NEW"),
    Case("an answer that gave up", [{"finish": "OTHER"}, GOOD]),
    Case("a malformed call, then a good answer", [{**MALFORMED, "finish_message": "read("}, GOOD]),
    Case("malformed calls for ever", [{**MALFORMED, **FOREVER}], 4, "", 4, "not valid"),
    Case("a call to what was not declared", [calls(READ, finish="UNEXPECTED_TOOL_CALL"), GOOD]),
    Case("a signature that is missed", [{"finish": "MISSING_THOUGHT_SIGNATURE"}, GOOD]),
    Case(
        "two finish reasons, text after the first",
        [raw(event({"text": "All "}, finishReason="STOP"), event({"text": "good."}, finishReason="STOP"))],
        requests=1,
    ),
    Case(
        "a part of a kind nobody knows",
        [raw(event({"hologram": {"x": 1}}), event({"text": "All good."}, finishReason="STOP"))],
        requests=1,
    ),
    Case("a long answer in several requests", [says("All ", "good.")], requests=1, flags=("-m", "gemini-4-argon")),
    # tools
    Case("a failure between two steps", [calls(READ), refused(503), GOOD], requests=3),
    Case("a cut in the second step", [calls(READ), broken("cut", 1), GOOD], requests=3),
    Case("a call in a stream that fails", [calls(READ, text="Al", fault={"kind": "cut", "after": 2}), GOOD]),
    Case("a call with arguments that do not fit", [calls(call("read_file", paths=["a.txt"])), GOOD]),
    Case("a call to an unknown tool", [calls(call("rm")), GOOD]),
    Case("calls with the same id", [calls({**READ, "id": "x"}, {**READ, "id": "x"}, READ), GOOD]),
    Case("an id that comes again", [calls({**READ, "id": "x"}), calls({**READ, "id": "x"}), GOOD], requests=3),
]  # fmt: skip


def test_there_are_sixty_scenarios_at_least() -> None:
    assert len(CASES) >= 60
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_ends_as_documented(place: Place, case: Case) -> None:
    place.write("a.txt", "alpha\n")
    before = place.files()
    result = place.ask("do it", *case.flags, replies=case.replies)
    assert (result.code, result.stdout) == (case.code, case.stdout), result.stderr
    assert len(result.requests) == case.requests, result.stderr
    assert case.told in result.stderr
    assert place.files() == before
    if case.code:
        assert result.stderr.count("✗") == 1, result.stderr


@pytest.mark.parametrize(
    "failure",
    [refused(503), broken("cut", 1), broken("reset", 0), {}, says("Al", finish=None), MALFORMED],
    ids=["503", "cut", "reset", "empty", "no end", "malformed"],
)  # fmt: skip
def test_no_retry_repeats_a_write(place: Place, failure: dict[str, Any]) -> None:
    result = place.ask("append", "-y", "-o", "json", replies=[calls(APPEND), failure, GOOD])
    assert (result.code, result.json["answer"]) == (0, "All good.")
    assert place.files() == {"log.txt": b"once\n"}
    assert [(each["name"], each["ok"]) for each in result.json["tool_calls"]] == [("write_file", True)]


def test_calls_with_the_same_id_run_once_each_and_get_their_own_results(place: Place) -> None:
    """The same id twice in one answer, and once more in the next; the strict simulator takes what follows."""

    def append(number: int) -> dict[str, Any]:
        return {**call("write_file", path=f"{number}.txt", content=f"{number}\n", mode="append"), "id": "x"}

    result = place.ask("go", "-y", "-o", "json", replies=[calls(append(1), append(2)), calls(append(3)), GOOD])
    assert (result.code, result.json["answer"], len(result.requests)) == (0, "All good.", 3), result.stderr
    assert place.files() == {f"{number}.txt": f"{number}\n".encode() for number in (1, 2, 3)}
    results = [item["response"]["output"]["path"] for number in (2, 3) for item in result.results(number)]
    assert results == ["1.txt", "2.txt", "3.txt"]
    assert [each["args"]["path"] for each in result.json["tool_calls"]] == ["1.txt", "2.txt", "3.txt"]


def test_a_call_in_a_failed_stream_is_never_run(place: Place) -> None:
    failing = calls(APPEND, text="I write.", fault={"kind": "cut", "after": 2})
    result = place.ask("append", "-y", "-o", "stream-json", replies=[failing, GOOD])
    assert result.code == 0
    assert place.files() == {}
    kinds = [each["type"] for each in result.events]
    assert "tool_call" not in kinds and kinds.count("retry") == 1
    assert kinds.index("text") < kinds.index("retry") < len(kinds) - 1 - kinds[::-1].index("text")


def test_what_fails_between_two_prompts_leaves_a_session_to_go_on_with(place: Place) -> None:
    place.write("a.txt", "alpha\n")
    assert place.ask("one", replies=[calls(READ), named("invalid_argument")]).code == 1
    result = place.ask("two", "--continue", replies=[GOOD])
    assert (result.code, result.stdout) == (0, ANSWER)
    (request,) = result.requests
    assert [content["role"] for content in request.contents] == ["user", "model", "user", "user"]
