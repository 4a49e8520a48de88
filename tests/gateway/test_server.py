"""The server itself: who gets in, bad input, clients that leave, many at once, two of it, start and stop."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from gemcode.agent.errors import UsageError
from gemcode.gateway.config import BODY_LIMIT, GatewayConfig
from gemcode.gateway.dialect import Envelope
from gemcode.gateway.server import serve
from gemcode.gemini.settings import GeminiSettings
from gemcode.simulator.reply import Call, RecordedRequest, Reply, Text
from gemcode.simulator.server import running_simulator
from tests.gateway.clients import ALL, ANTHROPIC, BEDROCK, CHAT, RESPONSES, Plain
from tests.gateway.support import MODEL, TOKEN, Script, Stage, config_for, running_gateway, stage

ROOT = Path(__file__).resolve().parents[2]
HEADERS = {"x-api-key": TOKEN}


@pytest.fixture(scope="module")
def running() -> Iterator[Stage]:
    with stage(Reply.says("ok")) as made:
        yield made


def shape_of(client: Plain, response: httpx2.Response) -> str:
    kind, message = client.read_error(response)
    assert message
    return kind


@pytest.mark.parametrize("client", ALL, ids=lambda client: client.name)
class TestBadInput:
    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"[]",
            b"null",
            b'"x"',
            b"\xff\xfe",
            b'{"model": NaN}',
            b"[" * 100_000,
            b'{"a":' * 2000 + b"1" + b"}" * 2000,
        ],
        ids=["empty", "cut", "list", "null", "string", "no utf-8", "nan", "deep", "deep and closed"],
    )
    def test_what_is_no_json_object_is_a_bad_request(self, running: Stage, client: Plain, body: bytes) -> None:
        response = httpx2.post(running.url + client.path(True), headers=HEADERS, content=body)
        assert response.status_code == 400
        shape_of(client, response)

    def test_a_body_that_is_deep_inside_is_a_bad_request_or_an_answer(self, running: Stage, client: Plain) -> None:
        body = client.body("hi", False)
        deep = json.loads('{"a":' * 400 + "1" + "}" * 400)
        text = json.dumps(body).replace('"type": "string"', '"default": ' + json.dumps(deep), 1)
        response = httpx2.post(running.url + client.path(False), headers=HEADERS, content=text.encode())
        assert response.status_code in (200, 400)

    @pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
    def test_a_number_that_json_has_not_is_a_bad_request(self, client: Plain, number: str) -> None:
        text = json.dumps(client.body("hi", False)).replace('"type": "string"', f'"default": {number}', 1)
        with stage(Reply.says("ok")) as made:
            response = httpx2.post(made.url + client.path(False), headers=HEADERS, content=text.encode())
            assert response.status_code == 400 and made.upstream == []
        shape_of(client, response)

    def test_of_two_fields_with_one_name_the_later_counts(self, client: Plain) -> None:
        text = json.dumps(client.body("hi", False)).replace('"read"', '"other", "name": "read"')
        with stage(Reply.says("ok")) as made:
            httpx2.post(made.url + client.path(False), headers=HEADERS, content=text.encode()).raise_for_status()
            (declared,) = made.upstream[0].body["tools"][0]["functionDeclarations"]
        assert declared["name"] == "read"

    def test_without_the_token_nothing_is_read(self, running: Stage, client: Plain) -> None:
        before = len(running.simulator.requests)
        for headers in ({}, {"x-api-key": "wrong"}, {"authorization": "Bearer wrong"}):
            response = httpx2.post(running.url + client.path(True), headers=headers, content=b"{")
            assert response.status_code == (403 if client is BEDROCK else 401)
            shape_of(client, response)
            assert TOKEN not in response.text
        assert len(running.simulator.requests) == before

    def test_a_foreign_host_name_is_refused(self, running: Stage, client: Plain) -> None:
        headers = {**HEADERS, "host": "evil.example:80", "origin": "http://evil.example"}
        response = httpx2.post(running.url + client.path(False), headers=headers, json=client.body("hi", False))
        assert response.status_code == 403
        shape_of(client, response)
        assert not [name for name in response.headers if name.startswith("access-control")]

    def test_a_huge_body_is_refused(self, running: Stage, client: Plain) -> None:
        response = httpx2.post(
            running.url + client.path(False), headers=HEADERS, content=b" " * (BODY_LIMIT + 1), timeout=60
        )
        assert response.status_code == 413
        shape_of(client, response)

    def test_compressed_bodies_are_refused(self, running: Stage, client: Plain) -> None:
        headers = {**HEADERS, "content-encoding": "gzip"}
        response = httpx2.post(running.url + client.path(False), headers=headers, content=b"{}")
        assert response.status_code == 400


@pytest.mark.parametrize(
    ("client", "method", "path"),
    [
        (ANTHROPIC, "GET", "/v1/messages"),
        (ANTHROPIC, "POST", "/v1/messages/batches"),
        (ANTHROPIC, "POST", "/nothing"),
        (RESPONSES, "GET", "/v1/responses"),
        (RESPONSES, "POST", "/v1/responses/compact"),
        (RESPONSES, "POST", "/v1/conversations/conv_1/items"),
        (RESPONSES, "POST", "/v1/embeddings"),
        (CHAT, "GET", "/v1/chat/completions"),
        (BEDROCK, "POST", "/model/x/invoke"),
        (BEDROCK, "GET", "/model/x/converse"),
    ],
)
def test_what_is_not_served_is_not_found_in_the_dialect_of_its_path(
    running: Stage, client: Plain, method: str, path: str
) -> None:
    response = httpx2.request(method, running.url + path, headers=HEADERS, content=b"{}")
    assert response.status_code == 404
    shape_of(client, response)


def test_what_is_not_served_by_the_service_itself_is_not_found_in_its_own_words(running: Stage) -> None:
    for method, path in (
        ("POST", "/v1/models/x:embed"),
        ("POST", "/v1beta/models/x:embed"),
        ("GET", "/v1beta/nothing"),
        ("GET", "/v1beta/models/a%2Fb%20c"),
    ):
        response = httpx2.request(method, running.url + path, headers=HEADERS, content=b"{}")
        assert response.json()["error"]["status"] == "NOT_FOUND", path


@pytest.mark.parametrize("name", ["gemini-../x", "gemini-é", "models/gemini-x?y", "gemini-" + "/" * 9])
def test_a_name_that_no_model_can_have_is_not_found(running: Stage, name: str) -> None:
    before = len(running.simulator.requests)
    for client in ALL[:3]:
        response = httpx2.post(
            running.url + client.path(False), headers=HEADERS, json={**client.body("hi", False), "model": name}
        )
        assert response.status_code == 404
        shape_of(client, response)
    response = httpx2.post(f"{running.url}/v1/gemini", headers=HEADERS, json={"model": name, "contents": "hi"})
    assert response.json()["error"]["status"] == "NOT_FOUND"
    assert len(running.simulator.requests) == before


def test_health_needs_no_token_and_metrics_do(running: Stage) -> None:
    assert httpx2.get(f"{running.url}/healthz").json() == {"status": "ok"}
    assert httpx2.head(running.url).status_code == 200
    assert httpx2.get(f"{running.url}/metrics").status_code == 401
    text = httpx2.get(f"{running.url}/metrics", headers=HEADERS).text
    for name in (
        "requests_total",
        "failures_total",
        "tokens_total",
        "tool_calls_total",
        "request_seconds_bucket",
        "sentinel",
    ):
        assert f"gemcode_gateway_{name}" in text
    assert all(re.fullmatch(r"[a-z_]+(\{[^}]*\})? [0-9.e+-]+", line) for line in text.splitlines() if line[0] != "#")


def test_lists_of_models_are_told_to_each_vendor_in_its_own_way(running: Stage) -> None:
    url = f"{running.url}/v1/models"
    openai = httpx2.get(url, headers=HEADERS).json()
    assert openai["object"] == "list" and openai["data"][0]["object"] == "model"
    anthropic = httpx2.get(url + "?limit=1000", headers={**HEADERS, "anthropic-version": "2023-06-01"}).json()
    assert anthropic["has_more"] is False and anthropic["data"][0]["type"] == "model"
    assert "models" in httpx2.get(url, headers={"x-goog-api-key": TOKEN}).json()
    assert httpx2.get(f"{url}/{MODEL}", headers=HEADERS).json()["id"] == MODEL
    missing = f"{url}/gpt-5"
    assert RESPONSES.read_error(httpx2.get(missing, headers=HEADERS))[0] == "model_not_found"
    asking = {**HEADERS, "anthropic-version": "2023-06-01"}
    assert ANTHROPIC.read_error(httpx2.get(missing, headers=asking))[0] == "not_found_error"
    assert httpx2.get(missing, headers={"x-goog-api-key": TOKEN}).json()["error"]["status"] == "NOT_FOUND"
    assert httpx2.get(missing, headers={"x-goog-api-key": "wrong"}).json()["error"]["status"] == "UNAUTHENTICATED"


def test_tokens_are_counted_by_the_service_and_nothing_is_generated(running: Stage) -> None:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hello " * 100}], "tools": []}
    before = len(running.upstream)
    response = httpx2.post(f"{running.url}/v1/messages/count_tokens?beta=true", headers=HEADERS, json=body)
    assert response.json()["input_tokens"] > 100 and len(running.upstream) == before


def test_without_the_service_tokens_are_estimated() -> None:
    with stage(Reply.says("ok"), gemini=GeminiSettings("k" * 20, "http://127.0.0.1:9")) as made:
        body = {"model": MODEL, "messages": [{"role": "user", "content": "x" * 4000}]}
        response = httpx2.post(f"{made.url}/v1/messages/count_tokens", headers=HEADERS, json=body)
        assert 1000 <= response.json()["input_tokens"] <= 1100


def wait_for(condition: Any, seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return bool(condition())


@pytest.mark.parametrize("client", ALL, ids=lambda client: client.name)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_when_the_client_leaves_the_service_is_told_and_nothing_is_left_running(client: Plain, stream: bool) -> None:
    slow = Reply(steps=tuple(Text(f"{n} ") for n in range(50)), delay_between=0.1, delay_first=0.1)
    with stage(slow) as made:
        body = json.dumps(client.body("hi", stream)).encode()
        head = f"POST {client.path(stream)} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {TOKEN}\r\n"
        head += f"content-length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", int(made.url.rpartition(":")[2]))) as raw:
            raw.sendall(head.encode() + body)
            if stream:
                assert raw.recv(100).startswith(b"HTTP/1.1 200")
            else:
                assert wait_for(lambda: made.upstream)
        assert made.upstream[0].disconnected.wait(20)
        idle = "gemcode_gateway_active_requests 1\n"  # the request for the metrics itself
        assert wait_for(lambda: idle in httpx2.get(f"{made.url}/metrics", headers=HEADERS).text)


@pytest.mark.parametrize("client", ALL, ids=lambda client: client.name)
def test_a_request_that_does_not_go_on_is_not_waited_for(client: Plain) -> None:
    with stage(Reply.says("ok"), body_seconds=0.2) as made:
        head = f"POST {client.path(True)} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {TOKEN}\r\n"
        with socket.create_connection(("127.0.0.1", int(made.url.rpartition(":")[2])), timeout=20) as raw:
            raw.sendall(f"{head}content-length: 9999\r\n\r\n{{".encode())
            assert raw.recv(1000).startswith(b"HTTP/1.1 400")
        assert made.upstream == []


def test_two_host_headers_are_one_too_many(running: Stage) -> None:
    with socket.create_connection(("127.0.0.1", int(running.url.rpartition(":")[2])), timeout=20) as raw:
        raw.sendall(
            f"GET /metrics HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\nx-api-key: {TOKEN}\r\n\r\n".encode()
        )
        assert raw.recv(1000).startswith(b"HTTP/1.1 403")


def test_a_long_silence_is_filled_so_that_the_connection_stays() -> None:
    with stage(Reply(steps=(Text("late"),), delay_first=0.5), ping_seconds=0.1) as made:
        response, told = ANTHROPIC.ask(made.url, "hi", stream=True)
        assert told is not None and told.text == "late"
        assert response.content.startswith(b": keep-alive\n\n")


def test_a_failure_after_the_silence_was_filled_is_told_in_the_stream() -> None:
    with stage(Reply(error="internal", delay_first=0.0), Reply(error="overloaded"), ping_seconds=0.05) as made:
        response, told = ANTHROPIC.ask(made.url, "hi", stream=True)
        assert response.status_code == 500 and told is None  # at once: a status of its own


def test_many_conversations_at_once_do_not_mix() -> None:
    def brain(request: RecordedRequest) -> Reply:
        texts = [part["text"] for content in request.contents for part in content["parts"] if "text" in part]
        return Reply(steps=tuple(Text(f"{texts[0]} ") for _ in range(5)), delay_between=0.01)

    async def ask(http: httpx2.AsyncClient, url: str, client: Plain, number: int) -> bool:
        response = await http.post(
            url + client.path(True), headers=HEADERS, json=client.body(f"user-{number}", True), timeout=60
        )
        return client.read_stream(response.content).text == f"user-{number} " * 5

    async def all_of_them(url: str) -> list[bool]:
        async with httpx2.AsyncClient(limits=httpx2.Limits(max_connections=None)) as http:
            return await asyncio.gather(*(ask(http, url, ALL[number % len(ALL)], number) for number in range(120)))

    with stage(brain) as made:
        assert all(asyncio.run(all_of_them(made.url)))


def test_a_second_gateway_goes_on_where_the_first_one_was() -> None:
    calls = [Reply.calls(Call("read", {"path": str(n)})) for n in range(4)]
    with running_simulator(Script(*calls, Reply.says("Done."))) as simulator:
        reports: list[str] = []
        with (
            running_gateway(config_for(simulator), reports.append) as one,
            running_gateway(config_for(simulator), reports.append) as two,
        ):
            body = ANTHROPIC.body("go", False)
            for step in range(5):
                url = (one, two)[step % 2]
                answer = httpx2.post(f"{url}/v1/messages", headers=HEADERS, json=body).json()
                body["messages"].append({"role": "assistant", "content": answer["content"]})
                uses = [block["id"] for block in answer["content"] if block["type"] == "tool_use"]
                results = [{"type": "tool_result", "tool_use_id": use, "content": "x"} for use in uses]
                body["messages"].append({"role": "user", "content": results})
            assert answer["content"][0]["text"] == "Done."
        assert simulator.violations == [] and reports == []
        assert "skip_thought" not in str([request.body for request in simulator.requests])


def test_a_broken_signature_is_taken_off_and_the_request_made_again() -> None:
    with stage(Reply.says("Fine.")) as made:
        content = [
            {"type": "thinking", "thinking": "", "signature": Envelope("call", MODEL, "Tm90IGdlbnVpbmU=").seal()},
            {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}},
        ]
        messages = [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": content},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}]},
        ]
        body = {"model": MODEL, "max_tokens": 100, "messages": messages}
        response = httpx2.post(f"{made.url}/v1/messages", headers=HEADERS, json=body)
        assert response.status_code == 200 and response.json()["content"][0]["text"] == "Fine."
        assert [violation.http_code for violation in made.simulator.violations] == [400]
        metrics = httpx2.get(f"{made.url}/metrics", headers=HEADERS).text
        assert 'gemcode_gateway_sentinel_signatures_total{dialect="anthropic"} 1' in metrics


def test_only_the_first_of_several_calls_is_delivered_where_one_at_a_time_was_asked() -> None:
    with stage(Reply.calls(Call("read", {"path": "a"}), Call("read", {"path": "b"}))) as made:
        body = {**ANTHROPIC.body("hi", False), "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}
        told = ANTHROPIC.read_whole(httpx2.post(f"{made.url}/v1/messages", headers=HEADERS, json=body).json())
        assert told.calls == [("read", {"path": "a"})]


PROGRAM = """
import sys
from pathlib import Path
from gemcode.gateway.config import GatewayConfig, load_token
from gemcode.gateway.server import serve
from gemcode.gemini.settings import GeminiSettings
config = GatewayConfig(GeminiSettings("k" * 20, sys.argv[1]), load_token(Path(sys.argv[2])), port=0)
sys.exit(serve(config, lambda line: print(line, flush=True), lambda line: print(line, file=sys.stderr, flush=True)))
"""


def assert_a_head_without_end_is_refused(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\nx: ")
        with contextlib.suppress(ConnectionError):  # it may be closed while we still write
            for _ in range(1024):
                raw.sendall(b"a" * 65_536)
            raise AssertionError("64 MB of headers were taken")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_what_to_set_and_stops_in_good_order(tmp_path: Path, number: signal.Signals) -> None:
    with running_simulator(Script(Reply(steps=(Text("a "), Text("b")), delay_between=0.5))) as simulator:
        command = [sys.executable, "-c", PROGRAM, simulator.url, str(tmp_path / "token")]
        running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert running.stdout is not None and running.stderr is not None
        first = running.stdout.readline()
        url = re.search(r"http://127\.0\.0\.1:\d+", first)
        assert url is not None
        token = (tmp_path / "token").read_text().strip()
        assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
        with socket.create_connection(("127.0.0.1", int(url[0].rpartition(":")[2])), timeout=20) as raw:
            raw.sendall(b"\x16\x03\x01 no HTTP at all\r\n\r\n")
            assert raw.recv(1000).startswith(b"HTTP/1.1 400")
        assert_a_head_without_end_is_refused(int(url[0].rpartition(":")[2]))
        with httpx2.stream(
            "POST", url[0] + "/v1/messages", headers={"x-api-key": token}, json=ANTHROPIC.body("hi", True)
        ) as response:
            chunks = response.iter_bytes()
            data = next(chunks)
            os.kill(running.pid, number)  # in the middle of a stream: it is let finish
            data += b"".join(chunks)
        assert ANTHROPIC.read_stream(data).text == "a b"
        out, err = running.stdout.read(), running.stderr.read()
        assert "Claude Code" in out and "Codex" in out and err == ""
        running.wait(30)
        assert running.returncode in (0, 130, -number)


def test_a_port_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = GatewayConfig(GeminiSettings("k"), TOKEN, port=taken.getsockname()[1])
        with pytest.raises(UsageError, match="Can't listen") as refused:
            serve(config, lambda line: None, lambda line: None)
        assert "--port" in refused.value.hint


@pytest.mark.parametrize("host", ["no such name", "192.0.2.1"])
def test_a_host_that_is_not_this_machine_is_said(host: str) -> None:
    with pytest.raises(UsageError, match="Can't listen") as refused:
        serve(GatewayConfig(GeminiSettings("k"), TOKEN, host, 0), lambda line: None, lambda line: None)
    assert "--host" in refused.value.hint


@pytest.mark.parametrize(
    ("setting", "sentence", "hint"),
    [
        ("SSL_CERT_FILE", "The trusted certificates can't be read.", "SSL_CERT_FILE"),
        ("HTTPS_PROXY", "The proxy of the environment can't be used.", "HTTPS_PROXY"),
        ("XDG_STATE_HOME", "Stored responses can't be kept in", "Move it out of the way."),
        ("GEMINI_API_KEY", "No API key.", "GEMINI_API_KEY"),
    ],
)
def test_what_keeps_it_from_serving_is_said_in_place_of_the_welcome(
    tmp_path: Path, setting: str, sentence: str, hint: str
) -> None:
    (tmp_path / "gemcode").write_text("neither a certificate nor a directory")
    wrong = {"SSL_CERT_FILE": str(tmp_path / "gemcode"), "HTTPS_PROXY": "socks5://127.0.0.1:1", "GEMINI_API_KEY": ""}
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "GEMINI_API_KEY": "key-0123456789"}
    environment[setting] = wrong.get(setting, str(tmp_path))
    command = [sys.executable, "-m", "gemcode", "serve", "--port", "0"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    first, second = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in first and hint in second


def test_a_hosted_tool_that_is_left_out_is_counted_and_said_once() -> None:
    offered = {
        "anthropic": (ANTHROPIC, {"tools": [{"type": "code_execution_20250825", "name": "secret name"}]}),
        "responses": (RESPONSES, {"tools": [{"type": "file_search"}]}),
        "chat": (CHAT, {"web_search_options": {}}),
        "bedrock": (BEDROCK, {"toolConfig": {"tools": [{"systemTool": {"name": "nova_grounding"}}]}}),
    }
    function = {"type": "function", "function": {"name": "read", "parameters": {}}}
    with stage(Reply.says("ok")) as made:
        for client, extra in [*offered.values(), *offered.values()]:
            body = {**client.body("hi", False), **extra} | ({"tools": [function]} if client is CHAT else {})
            assert httpx2.post(made.url + client.path(False), headers=HEADERS, json=body).status_code == 200
        kinds = ["code_execution_20250825", "file_search", "web_search", "nova_grounding"]
        said = [f"{kind} ({name})." for kind, name in zip(kinds, offered, strict=True)]
        assert [line.rpartition(": ")[2] for line in made.reports] == said
        made.reports.clear()
        counted = httpx2.get(made.url + "/metrics", headers=HEADERS).text
        assert 'left_out_tools_total{dialect="responses",tool="file_search"} 2' in counted


def test_nothing_is_written_while_it_serves(running: Stage, capfd: pytest.CaptureFixture[str]) -> None:
    for client in ALL:
        client.ask(running.url, "hi", stream=True)
        httpx2.post(running.url + client.path(True), headers=HEADERS, content=b"{secret")
    assert capfd.readouterr() == ("", "")
