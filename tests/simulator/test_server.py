"""The service over real sockets: framing, keys, routes, keep-alive, recording, disconnects."""

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx2
import pytest

from gemcode.simulator.reply import RecordedRequest, Reply
from gemcode.simulator.server import Simulator, running_simulator
from gemcode.simulator.service import Settings

MODEL = "gemini-3.8-flash"
HELLO = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
WAIT = 10.0


def scenario(*replies: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"schema": 1, "replies": list(replies), **fields}


FOREVER = scenario({"text": ["Hel", "lo"], "repeat": "forever"})


@contextmanager
def client(simulator: Simulator, key: str | None = "secret-key") -> Iterator[httpx2.Client]:
    headers = {"x-goog-api-key": key} if key else {}
    with httpx2.Client(base_url=simulator.url, headers=headers, trust_env=False, timeout=WAIT) as http:
        yield http


def post(http: httpx2.Client, method: str = "generateContent", body: Any = HELLO, **options: Any) -> httpx2.Response:
    version, model = options.pop("version", "v1beta"), options.pop("model", MODEL)
    return http.post(f"/{version}/models/{model}:{method}", json=body, **options)


def exchange(simulator: Simulator, payload: bytes) -> bytes:
    """Raw bytes in, everything until the end of the connection out."""
    with socket.create_connection(("127.0.0.1", int(simulator.url.rpartition(":")[2])), timeout=WAIT) as raw:
        raw.sendall(payload)
        received = b""
        while data := raw.recv(65536):
            received += data
    return received


def raw_request(method: str, body: Any = HELLO, query: str = "") -> bytes:
    data = json.dumps(body).encode()
    head = f"POST /v1beta/models/{MODEL}:{method}{query} HTTP/1.1\r\nHost: x\r\nx-goog-api-key: k\r\n"
    return head.encode() + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(data) + data


def dechunk(received: bytes) -> tuple[str, list[bytes]]:
    head, _, body = received.partition(b"\r\n\r\n")
    chunks = []
    while True:
        size, _, body = body.partition(b"\r\n")
        if int(size, 16) == 0:
            return head.decode(), chunks
        chunks.append(body[: int(size, 16)])
        body = body[int(size, 16) + 2 :]


@pytest.mark.parametrize("version", ["v1", "v1beta"])
def test_a_unary_answer_is_pretty_printed_json(version: str) -> None:
    with running_simulator(FOREVER) as simulator, client(simulator) as http:
        response = post(http, version=version)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json; charset=UTF-8"
    assert response.headers["transfer-encoding"] == "chunked"
    assert response.text.startswith('{\n  "candidates": [\n')
    assert response.json()["candidates"][0]["content"]["parts"][0]["text"] == "Hello"
    assert simulator.violations == []


def test_sse_events_are_one_data_line_each_and_the_stream_just_ends() -> None:
    with running_simulator(FOREVER) as simulator:
        head, chunks = dechunk(exchange(simulator, raw_request("streamGenerateContent", query="?alt=sse")))
    assert "content-type: text/event-stream" in head.lower()
    assert len(chunks) == 3
    for chunk in chunks:
        assert chunk.startswith(b"data: {")
        assert chunk.endswith(b"}\r\n\r\n")
        assert chunk.count(b"\n") == 2
        json.loads(chunk.removeprefix(b"data: "))


def test_without_sse_a_stream_is_one_json_array_sent_element_by_element() -> None:
    with running_simulator(FOREVER) as simulator:
        head, chunks = dechunk(exchange(simulator, raw_request("streamGenerateContent")))
    assert "content-type: application/json" in head.lower()
    assert [chunk[:1] for chunk in chunks] == [b"[", b",", b",", b"]"]
    assert len(json.loads(b"".join(chunks))) == 3


def test_an_error_of_an_array_stream_is_wrapped_and_of_a_sse_stream_is_not() -> None:
    with running_simulator(FOREVER) as simulator, client(simulator) as http:
        listed = post(http, "streamGenerateContent", {})
        plain = post(http, "streamGenerateContent", {}, params={"alt": "sse"})
    assert listed.json()[0]["error"]["code"] == listed.status_code == 400
    assert plain.json()["error"]["code"] == 400


def test_an_empty_stream_is_an_empty_body_or_an_empty_array() -> None:
    with running_simulator(scenario({"finish": None, "repeat": 2})) as simulator, client(simulator) as http:
        assert post(http, "streamGenerateContent", params={"alt": "sse"}).text == ""
        assert post(http, "streamGenerateContent").json() == []


KEY_INVALID = {
    "error": {
        "code": 400,
        "message": "API key not valid. Please pass a valid API key.",
        "status": "INVALID_ARGUMENT",
        "details": [
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "API_KEY_INVALID",
                "domain": "googleapis.com",
                "metadata": {"service": "generativelanguage.googleapis.com"},
            },
            {
                "@type": "type.googleapis.com/google.rpc.LocalizedMessage",
                "locale": "en-US",
                "message": "API key not valid. Please pass a valid API key.",
            },
        ],
    }
}


def test_a_wrong_key_is_a_400_and_no_key_a_403() -> None:
    with running_simulator(FOREVER) as simulator:
        with client(simulator, "invalid") as http:
            assert post(http).json() == KEY_INVALID
        with client(simulator, None) as http:
            nobody = post(http)
            assert (nobody.status_code, nobody.json()["error"]["status"]) == (403, "PERMISSION_DENIED")
            assert "Method doesn't allow unregistered callers" in nobody.text
            assert post(http, headers={"Authorization": "Bearer x"}).status_code == 401
            assert post(http, params={"key": "anything"}).status_code == 200
            assert post(http, params={"key": "invalid"}).status_code == 400
    assert [violation.http_code for violation in simulator.violations] == [400, 403, 401, 400]


def test_only_the_configured_keys_are_valid() -> None:
    with running_simulator(FOREVER, Settings(valid_keys=frozenset({"good"}))) as simulator:
        for key, status in (("good", 200), ("other", 400)):
            with client(simulator, key) as http:
                assert post(http).status_code == status


def test_requests_are_recorded_with_the_key_masked() -> None:
    with running_simulator(FOREVER) as simulator, client(simulator) as http:
        post(http, params={"key": "secret-too"})
        assert simulator.requests[0].finished.wait(WAIT)
    (request,) = simulator.requests
    assert request.headers["x-goog-api-key"] == request.query["key"] == "***"
    assert "secret" not in repr(request)
    assert (request.number, request.method, request.version, request.model) == (1, "POST", "v1beta", MODEL)
    assert (request.action, request.path) == ("generateContent", f"/v1beta/models/{MODEL}:generateContent")
    assert request.body == HELLO
    assert request.size == len(httpx2.Request("POST", "http://x", json=HELLO).content)
    assert request.last_text == "hi"
    assert not request.disconnected.is_set()


def test_a_refused_request_is_a_violation_with_its_reason() -> None:
    with running_simulator(FOREVER) as simulator, client(simulator) as http:
        response = post(http, body={"contents": [], "oops": 1})
    (violation,) = simulator.violations
    assert violation.request is simulator.requests[0]
    assert violation.message == response.json()["error"]["message"]
    assert 'Unknown name "oops"' in violation.message


def test_scripted_errors_are_no_violations() -> None:
    with running_simulator(scenario({"http_error": {"name": "overloaded"}})) as simulator, client(simulator) as http:
        response = post(http, "streamGenerateContent", params={"alt": "sse"})
    assert response.status_code == 503
    assert response.json()["error"]["message"] == "The model is overloaded. Please try again later."
    assert simulator.violations == []


def test_an_exhausted_scenario_answers_500_and_is_a_violation() -> None:
    with running_simulator(scenario()) as simulator, client(simulator) as http:
        response = post(http)
    assert response.status_code == 500
    assert "The scenario has no reply left" in response.json()["error"]["message"]
    assert "no reply left" in simulator.violations[0].message


class Failing:
    def answer(self, request: RecordedRequest) -> Reply:
        raise KeyError("a bug in the brain")


def test_a_bug_in_a_brain_reaches_the_client_and_the_log() -> None:
    with running_simulator(Failing()) as simulator, client(simulator) as http:
        assert "a bug in the brain" in post(http).json()["error"]["message"]
    assert "a bug in the brain" in simulator.violations[0].message


class Echo:
    def answer(self, request: RecordedRequest) -> Reply:
        return Reply.says(request.last_text.upper())


def test_a_python_object_can_be_the_brain() -> None:
    with running_simulator(Echo()) as simulator, client(simulator) as http:
        assert post(http).json()["candidates"][0]["content"]["parts"][0]["text"] == "HI"


@pytest.mark.parametrize("path", ["/", "/v2/models", "/v1beta/nothing", "/v1beta/models/a/b", "/v1beta/models/"])
def test_other_paths_get_an_html_page(path: str) -> None:
    with running_simulator(FOREVER) as simulator, client(simulator) as http:
        response = http.get(path)
    assert response.status_code == 404
    assert response.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"/v1/models/{MODEL}:generateContent"),
        ("PUT", f"/v1/models/{MODEL}:streamGenerateContent"),
        ("POST", "/v1/models"),
        ("DELETE", f"/v1/models/{MODEL}"),
        ("PUT", "/v1/cachedContents"),
        ("POST", "/v1/cachedContents/abc"),
    ],
)
def test_another_method_than_the_routes_own_gets_the_page_too(method: str, path: str) -> None:
    with running_simulator(FOREVER) as simulator, client(simulator) as http:
        response = http.request(method, path, json=HELLO)
    assert response.status_code == 404
    assert response.headers["content-type"].startswith("text/html")
    assert simulator.violations[0].message == f"no such path: {method} {path}"


@pytest.mark.parametrize("target", ["http://[::1", "//[/x", "*", "/v1/models?%", "/%ff"])
def test_no_target_breaks_the_server(target: str, capfd: pytest.CaptureFixture[str]) -> None:
    with running_simulator(FOREVER) as simulator:
        head = f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        assert exchange(simulator, head.encode()).startswith(b"HTTP/1.1 40")
        assert len(simulator.requests) == 1
    assert "Traceback" not in capfd.readouterr().err


def test_a_status_comes_with_its_words() -> None:
    replies = ({"http_error": {"status": 502, "body": "<html>"}}, {"http_error": {"name": "high_demand"}})
    with running_simulator(scenario(*replies)) as simulator, client(simulator) as http:
        assert [post(http).reason_phrase for _ in range(2)] == ["Bad Gateway", "Service Unavailable"]


@pytest.mark.parametrize("version", ["v1", "v1beta"])
def test_a_scripted_404_repeats_the_version_of_the_address(version: str) -> None:
    scripted = scenario({"http_error": {"name": "not_found"}})
    with running_simulator(scripted) as simulator, client(simulator) as http:
        message = post(http, version=version).json()["error"]["message"]
    assert message.startswith(f"models/{MODEL} is not found for API version {version}, or is")


@pytest.mark.parametrize("events", [[5], [None], [{"candidates": 5}], [{"candidates": [{"content": {"parts": 5}}]}]])
def test_raw_events_of_any_form_are_sent(events: list[Any]) -> None:
    with running_simulator(scenario({"raw_events": events})) as simulator, client(simulator) as http:
        assert post(http, "streamGenerateContent").json() == events
    assert simulator.violations == []


@pytest.mark.parametrize("body", [b"{", b"nonsense", b'{"a":' * 5000, b"\xff\xfe"])
def test_a_body_that_is_no_json_is_refused(body: bytes) -> None:
    with running_simulator(FOREVER) as simulator, client(simulator) as http:
        response = http.post(f"/v1/models/{MODEL}:generateContent", content=body)
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith("Invalid JSON payload received.")


@pytest.mark.parametrize("depth", [50, 900, 960, 5000])
def test_deep_arguments_are_never_fatal(depth: int) -> None:
    call = {"functionCall": {"name": "f", "args": "ARGS"}, "thoughtSignature": "skip_thought_signature_validator"}
    result = {"functionResponse": {"name": "f", "response": {}}}
    contents = [*HELLO["contents"], {"role": "model", "parts": [call]}, {"parts": [result]}]
    body = json.dumps({"contents": contents}).replace('"ARGS"', '{"a":' * depth + "1" + "}" * depth)
    with running_simulator(FOREVER) as simulator, client(simulator) as http:
        response = http.post(f"/v1/models/{MODEL}:generateContent", content=body.encode())
        assert response.status_code == 200 if depth < 100 else response.status_code in (200, 400)
        assert post(http).status_code == 200


def test_a_client_may_wait_for_permission_to_send_its_body() -> None:
    request = raw_request("generateContent").replace(b"Host: x", b"Host: x\r\nExpect: 100-continue")
    head, _, body = request.partition(b"\r\n\r\n")
    with running_simulator(FOREVER) as simulator:
        address = ("127.0.0.1", int(simulator.url.rpartition(":")[2]))
        with socket.create_connection(address, timeout=WAIT) as raw:
            raw.sendall(head + b"\r\n\r\n")
            assert raw.recv(65536).startswith(b"HTTP/1.1 100")
            raw.sendall(body)
            assert raw.recv(65536).startswith(b"HTTP/1.1 200")


def test_an_unknown_action_is_not_found_in_the_words_of_the_service() -> None:
    with running_simulator(FOREVER) as simulator, client(simulator) as http:
        response = post(http, "embedContent")
    assert response.status_code == 404
    assert "is not supported for embedContent" in response.json()["error"]["message"]


def test_a_payload_over_the_limit_is_refused() -> None:
    with running_simulator(FOREVER, Settings(payload_limit=1000)) as simulator, client(simulator) as http:
        response = post(http, body={"contents": [{"parts": [{"text": "x" * 2000}]}]})
    assert "Request payload size exceeds the limit: 1000 bytes." in response.json()["error"]["message"]


def test_one_connection_serves_many_requests() -> None:
    data = json.dumps(HELLO).encode()
    head = f"POST /v1/models/{MODEL}:generateContent HTTP/1.1\r\nHost: x\r\nx-goog-api-key: k\r\n".encode()
    one = head + b"Content-Length: %d\r\n\r\n" % len(data) + data
    last = one.replace(b"Host: x", b"Host: x\r\nConnection: close")
    with running_simulator(FOREVER) as simulator:
        received = exchange(simulator, one + one + last)  # pipelined: the strictest form of keep-alive
    assert received.count(b"HTTP/1.1 200") == 3
    assert len(simulator.requests) == 3


def test_broken_http_ends_only_its_own_connection() -> None:
    with running_simulator(FOREVER) as simulator, client(simulator) as http:
        assert exchange(simulator, b"this is no http\r\n\r\n").startswith((b"", b"HTTP/1.1 400"))
        assert post(http).status_code == 200


def test_models_are_listed_in_pages() -> None:
    with running_simulator(FOREVER) as simulator, client(simulator) as http:
        everything = http.get("/v1beta/models").json()
        assert "nextPageToken" not in everything
        names, token = [], ""
        while True:
            page = http.get("/v1beta/models", params={"pageSize": 3, "pageToken": token}).json()
            names += [model["name"] for model in page["models"]]
            if not (token := page.get("nextPageToken", "")):
                break
        assert names == [model["name"] for model in everything["models"]]
        assert "models/gemini-flash-latest" in names
        assert "models/gemini-flash-latest" not in http.get("/v1/models").text
        for wrong in ({"pageToken": "x"}, {"pageSize": "-1"}, {"pageSize": "9" * 5000}):
            assert http.get("/v1/models", params=wrong).json()["error"]["status"] == "INVALID_ARGUMENT"


def test_one_model_can_be_asked_for() -> None:
    with running_simulator(FOREVER) as simulator, client(simulator) as http:
        model = http.get(f"/v1/models/{MODEL}").json()
        assert (model["name"], model["inputTokenLimit"]) == (f"models/{MODEL}", 1_048_576)
        assert http.get("/v1/models/gemini-9").status_code == 404
        assert "createCachedContent" not in http.get("/v1/models/gemini-4-argon").json()["supportedGenerationMethods"]


def test_tokens_are_counted_in_both_forms() -> None:
    with running_simulator(FOREVER) as simulator, client(simulator) as http:
        plain = post(http, "countTokens").json()
        nested = post(http, "countTokens", {"generateContentRequest": {"model": f"models/{MODEL}", **HELLO}}).json()
        used = post(http).json()["usageMetadata"]["promptTokenCount"]
    assert (
        plain
        == nested
        == {
            "totalTokens": used,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": used}],
        }
    )


def test_a_repeated_prefix_is_reported_as_cached() -> None:
    long = {"contents": [{"role": "user", "parts": [{"text": "word " * 5000}]}]}
    more = {"contents": [*long["contents"], {"role": "model", "parts": [{"text": "ok"}]}, *HELLO["contents"]]}
    with running_simulator(FOREVER) as simulator, client(simulator) as http:
        first, second, other = (
            post(http, body=long),
            post(http, body=more),
            post(http, body=more, model="gemini-3.7-flash"),
        )
    assert "cachedContentTokenCount" not in first.json()["usageMetadata"]
    usage = second.json()["usageMetadata"]
    assert usage["promptTokenCount"] > usage["cachedContentTokenCount"] > 6000
    assert "cachedContentTokenCount" not in other.json()["usageMetadata"]


def test_short_prompts_are_cached_only_if_the_minimum_is_lowered() -> None:
    for settings, cached in ((Settings(), False), (Settings(cache_minimum=1), True)):
        with running_simulator(FOREVER, settings) as simulator, client(simulator) as http:
            post(http)
            assert ("cachedContentTokenCount" in post(http).json()["usageMetadata"]) is cached


def test_explicit_caches_live_and_expire() -> None:
    big = {"parts": [{"text": "word " * 2000}]}
    with running_simulator(FOREVER) as simulator, client(simulator) as http:
        made = http.post(
            "/v1beta/cachedContents", json={"model": f"models/{MODEL}", "systemInstruction": big, "ttl": "60s"}
        )
        name = made.json()["name"]
        usage = post(http, body={**HELLO, "cachedContent": name}).json()["usageMetadata"]
        assert usage["cachedContentTokenCount"] == made.json()["usageMetadata"]["totalTokenCount"]
        assert http.get(f"/v1beta/{name}").json()["name"] == name
        assert [cache["name"] for cache in http.get("/v1beta/cachedContents").json()["cachedContents"]] == [name]
        assert http.patch(f"/v1beta/{name}", json={"ttl": "0s"}).status_code == 200
        gone = http.get(f"/v1beta/{name}")
        assert (gone.status_code, gone.json()["error"]["message"]) == (
            403,
            "CachedContent not found (or permission denied)",
        )
        assert post(http, body={**HELLO, "cachedContent": name}).status_code == 403
        small = http.post("/v1beta/cachedContents", json={"model": f"models/{MODEL}", **HELLO})
        assert "Cached content is too small. total_token_count=" in small.text
        argon = http.post("/v1beta/cachedContents", json={"model": "models/gemini-4-argon", "systemInstruction": big})
        assert argon.status_code == 404
        again = http.post("/v1beta/cachedContents", json={"model": f"models/{MODEL}", "systemInstruction": big}).json()
        assert http.delete(f"/v1beta/{again['name']}").json() == {}
        assert http.delete(f"/v1beta/{again['name']}").status_code == 403


@pytest.mark.parametrize(
    "expiry",
    [{"ttl": "9" * 30 + "s"}, {"ttl": "5m"}]
    + [{"expireTime": time} for time in ("soon", "2027-01-01T00:00:00", "9999-12-31T23:59:59-23:00")],
)
def test_an_expiry_that_is_no_time_is_refused(expiry: dict[str, str]) -> None:
    big = {"parts": [{"text": "word " * 2000}]}
    with running_simulator(FOREVER) as simulator, client(simulator) as http:
        made = http.post("/v1/cachedContents", json={"model": f"models/{MODEL}", "systemInstruction": big, **expiry})
        assert made.json()["error"]["message"].startswith("Invalid value at 'cached_content.")
        assert http.get("/v1/cachedContents").json() == {"cachedContents": []}


def test_an_unknown_model_of_the_scenario_is_served() -> None:
    named = scenario({"text": "a", "repeat": "forever"}, model="gemini-7-neon")
    with running_simulator(named) as simulator, client(simulator) as http:
        assert post(http, model="gemini-7-neon").status_code == 200
        assert post(http, model="gemini-7-helium").status_code == 404


def test_a_gemini_4_answer_over_the_cap_continues_with_a_token() -> None:
    said = "".join(chr(0x4E00 + number) for number in range(40))
    said_once = scenario({"text": said})
    with running_simulator(said_once, Settings(output_limit=12)) as simulator, client(simulator) as http:
        body, heard = dict(HELLO), ""
        while True:
            candidate = post(http, body=body, model="gemini-4-argon").json()["candidates"][0]
            heard += candidate["content"]["parts"][0]["text"]
            if candidate["finishReason"] != "CONTINUATION":
                break
            body = {**HELLO, "continuationToken": candidate["continuationToken"]}
        assert heard == said
        assert candidate["finishReason"] == "STOP"
        assert len(simulator.requests) == 3
        changed = {"contents": [{"parts": [{"text": "other"}]}], "continuationToken": body["continuationToken"]}
        assert post(http, body=changed, model="gemini-4-argon").status_code == 400
        unknown = {**HELLO, "continuationToken": "AAAA"}
        assert (
            post(http, body=unknown, model="gemini-4-argon").json()["error"]["message"] == "Invalid continuation token."
        )


def test_a_scripted_continuation_takes_the_next_reply() -> None:
    two = scenario({"text": "a", "finish": "CONTINUATION"}, {"text": "b"})
    with running_simulator(two) as simulator, client(simulator) as http:
        first = post(http, model="gemini-4-argon").json()["candidates"][0]
        body = {**HELLO, "continuation_token": first["continuationToken"]}
        assert post(http, body=body, model="gemini-4-argon").json()["candidates"][0]["finishReason"] == "STOP"


def test_recorded_signatures_come_back_as_known() -> None:
    recorded = {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "cmVjb3JkZWQ="}
    event = {"candidates": [{"content": {"parts": [recorded], "role": "model"}, "finishReason": "STOP"}]}
    result = {"functionResponse": {"name": "f", "response": {}}}

    def history(signature: str) -> dict[str, Any]:
        call = {**recorded, "thoughtSignature": signature}
        return {"contents": [*HELLO["contents"], {"role": "model", "parts": [call]}, {"parts": [result]}]}

    with running_simulator(scenario({"raw_events": [event]}, {"text": "done"})) as simulator, client(simulator) as http:
        assert post(http).json() == event
        assert post(http, body=history("cmVjb3JkZWQ")).status_code == 200
        assert post(http, body=history("Zm9yZWlnbg==")).json()["error"]["message"] == "Corrupted thought signature."
    with running_simulator(scenario({"text": "done"}, strict=False)) as simulator, client(simulator) as http:
        assert post(http, body=history("Zm9yZWlnbg==")).status_code == 200


def test_strict_ids_are_a_setting() -> None:
    call = {"functionCall": {"name": "f"}, "thoughtSignature": "skip_thought_signature_validator"}
    result = {"functionResponse": {"name": "f", "response": {}}}
    body = {"contents": [*HELLO["contents"], {"role": "model", "parts": [call]}, {"parts": [result]}]}
    for settings, status in ((Settings(), 200), (Settings(strict_ids=True), 400)):
        with running_simulator(FOREVER, settings) as simulator, client(simulator) as http:
            assert post(http, body=body).status_code == status


@pytest.mark.parametrize("reply", [{"delay_first": 600}, {"text": ["a", "b"], "delay_between": 600}])
def test_a_client_that_leaves_is_noticed_at_once(reply: dict[str, Any]) -> None:
    with running_simulator(scenario(reply, {"text": "next"})) as simulator:
        raw = socket.create_connection(("127.0.0.1", int(simulator.url.rpartition(":")[2])), timeout=WAIT)
        raw.sendall(raw_request("streamGenerateContent", query="?alt=sse"))
        if "text" in reply:
            received = b""
            while b"data: " not in received:
                received += raw.recv(65536)
        else:
            with client(simulator) as http:  # the server has read the first request once it has answered a second one
                post(http, "countTokens")
        raw.close()
        request = next(request for request in simulator.requests if request.action == "streamGenerateContent")
        assert request.disconnected.wait(WAIT)
        assert not request.finished.is_set()
        with client(simulator) as http:
            assert post(http).status_code == 200


def test_the_simulator_runs_inside_an_event_loop_too() -> None:
    async def run() -> list[str]:
        async with Simulator(FOREVER) as simulator, httpx2.AsyncClient(trust_env=False, timeout=WAIT) as http:
            url = f"{simulator.url}/v1/models/{MODEL}:streamGenerateContent?alt=sse&key=k"
            async with http.stream("POST", url, json=HELLO) as response:
                return [line async for line in response.aiter_lines() if line]

    assert len(asyncio.run(run())) == 3


def test_many_clients_at_once_are_served() -> None:
    async def run() -> list[int]:
        slow = scenario({"text": "a", "delay_first": 0.05, "repeat": "forever"})
        async with Simulator(slow) as simulator, httpx2.AsyncClient(trust_env=False, timeout=WAIT) as http:
            url = f"{simulator.url}/v1/models/{MODEL}:generateContent?key=k"
            answers = await asyncio.gather(*(http.post(url, json=HELLO) for _ in range(20)))
        return [answer.status_code for answer in answers]

    assert asyncio.run(run()) == [200] * 20


def test_stopping_ends_open_connections() -> None:
    with running_simulator(scenario({"delay_first": 600})) as simulator:
        raw = socket.create_connection(("127.0.0.1", int(simulator.url.rpartition(":")[2])), timeout=WAIT)
        raw.sendall(raw_request("generateContent"))
    with raw, suppress(ConnectionResetError):  # a reset if the request was not even read
        assert raw.recv(10) == b""


def test_a_taken_port_is_an_error_of_the_caller() -> None:
    with running_simulator(FOREVER) as simulator:
        port = int(simulator.url.rpartition(":")[2])
        with pytest.raises(OSError, match="Address already in use"), running_simulator(FOREVER, port=port):
            pass
