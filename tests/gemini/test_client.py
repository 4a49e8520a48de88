"""GeminiModel over real sockets: what is on the wire, what comes back, what a failure says, how fast it lets go."""

import asyncio
import gzip
import json
import os
import socket
import ssl
import subprocess
import sys
from contextlib import aclosing

import pytest

from gemcode.agent.errors import ExitCode, ModelError
from gemcode.agent.messages import (
    Generation,
    ModelMessage,
    ModelRequest,
    Text,
    ToolCall,
    ToolDeclaration,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from gemcode.agent.model import FinishKind, ModelReplied, TextDelta
from gemcode.gemini import wire
from gemcode.gemini.client import GeminiModel
from gemcode.gemini.settings import GeminiSettings
from tests.gemini.service import KEY, Answer, Connection, Received, Service, events, plain, said, serving

REQUEST = ModelRequest("gemini-3.8-flash", (UserMessage.of("Hallo, Wörld\u2028🌍"),))
RICH_REQUEST = ModelRequest(
    "gemini-3.8-flash",
    (
        UserMessage.of("Read it."),
        ModelMessage(
            (
                Text(
                    "", raw={"text": "", "novel_field": {"snake_case": 1, "camelCase": 2}, "thoughtSignature": "QUJD"}
                ),
                ToolCall("x", "read_file", {}, raw={"functionCall": {"name": "read_file", "args": {"file_path": "ä"}}}),
            )
        ),
        ToolMessage((ToolResult("x", "read_file", {"output": "ok"}),)),
    ),
    system="Be kind.",
    tools=(ToolDeclaration("read_file", "Reads.", {"type": "object", "properties": {"a_b": {"const": 1}}}),),
    generation=Generation(max_output_tokens=9, thinking_level="low", include_thoughts=True),
)


async def ask(model: GeminiModel, request: ModelRequest = REQUEST) -> ModelReplied:
    try:
        return [event async for event in model.stream(request)][-1]
    finally:
        await model.aclose()


def answer_of(answer: Answer, request: ModelRequest = REQUEST, **settings: object) -> tuple[ModelReplied, Service]:
    async def run() -> tuple[ModelReplied, Service]:
        async with serving(answer) as service:
            return await ask(service.model(**settings), request), service

    return asyncio.run(run())


def failure_of(answer: Answer, **settings: object) -> ModelError:
    with pytest.raises(ModelError) as caught:
        answer_of(answer, **settings)
    error = caught.value
    assert KEY not in f"{error} {error.message} {error.hint} {error.detail}"
    return error


# What is on the wire


@pytest.mark.parametrize("request_", [REQUEST, RICH_REQUEST], ids=["plain", "rich"])
def test_the_body_on_the_wire_is_exactly_what_the_encoder_made(request_: ModelRequest) -> None:
    _, service = answer_of(events(said("ok", finishReason="STOP")), request_)
    assert service.received[0].body == wire.dump_body(wire.encode_request(request_))


def test_the_request_goes_to_v1_with_the_key_in_a_header() -> None:
    _, service = answer_of(events(said("ok", finishReason="STOP")))
    received = service.received[0]
    assert received.method == "POST"
    assert received.path == "/v1/models/gemini-3.8-flash:streamGenerateContent?alt=sse"
    assert received.headers["x-goog-api-key"] == KEY
    assert "google-genai-sdk" in received.headers["user-agent"]


def test_another_version_and_a_path_before_it_can_be_set() -> None:
    async def run() -> str:
        async with serving(events(said("ok", finishReason="STOP"))) as service:
            await ask(service.model(base_url=f"{service.url}/proxy/", api_version="v1beta"))
            return service.received[0].path

    assert asyncio.run(run()).startswith("/proxy/v1beta/models/")


def test_the_environment_cannot_change_the_backend_the_address_or_the_key(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "elsewhere")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("GOOGLE_GENAI_API_VERSION", "v9")
    monkeypatch.setenv("GOOGLE_API_KEY", "other-key-1")
    monkeypatch.setenv("GEMINI_API_KEY", "other-key-2")
    _, service = answer_of(events(said("ok", finishReason="STOP")))
    assert service.received[0].headers["x-goog-api-key"] == KEY
    assert service.received[0].path.startswith("/v1/")
    assert capfd.readouterr() == ("", "")


def test_the_trace_tells_each_request_and_answer_without_the_key() -> None:
    lines: list[str] = []
    answer_of(events(said("ok", finishReason="STOP")), trace=lines.append)
    assert len(lines) == 2
    assert "streamGenerateContent" in lines[0]
    assert "HTTP 200" in lines[1]


def test_light_modules_load_no_sdk() -> None:
    code = (
        "import sys; import gemcode.gemini.wire, gemcode.gemini.retry, gemcode.gemini.catalog, gemcode.gemini.client,"
        "gemcode.gemini.persistent; assert not {'google.genai', 'httpx2'} & set(sys.modules);"
        "gemcode.gemini.client.preload(); assert 'google.genai' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.getcwd()})


# What comes back


def test_framing_of_any_kind_is_understood() -> None:
    async def answer(_: Received, connection: Connection) -> None:
        await connection.start()
        for piece in (
            b": hello\n\n",
            b"event: message\nid: 1\ndata:",
            b'{"candidates":[{"content":',
            b'{"parts":[{"text":"a',
        ):
            await connection.chunk(piece)
        await connection.chunk("\u2028b".encode()[:2])
        await connection.chunk("\u2028b".encode()[2:] + b'"}]}}]}\r\n\r\n')
        await connection.chunk(b'data: {"candidates":[{"finishReason":"STOP"}]}\n\ndata: [DONE]\n\n')
        await connection.end()

    reply, _ = answer_of(answer)
    assert (reply.message.text, reply.finish.kind) == ("a\u2028b", FinishKind.COMPLETE)


@pytest.mark.parametrize(
    "body", [json.dumps(said("ok", finishReason="STOP"), indent=2), json.dumps([said("ok", finishReason="STOP")])]
)
def test_a_whole_json_answer_is_as_good_as_a_stream(body: str) -> None:
    reply, _ = answer_of(plain(200, body.encode()))
    assert reply.message.text == "ok"


def test_a_compressed_answer_is_read() -> None:
    body = b"data: " + json.dumps(said("ok", finishReason="STOP")).encode() + b"\n\n"
    reply, _ = answer_of(plain(200, gzip.compress(body), "text/event-stream", Content_Encoding="gzip"))
    assert reply.message.text == "ok"


def test_a_long_answer_is_continued_with_the_token_and_the_usage_summed() -> None:
    hops = iter(
        [
            events(
                {
                    **said("one ", finishReason="CONTINUATION", continuationToken="dG9rZW4="),
                    "usageMetadata": {"promptTokenCount": 5, "totalTokenCount": 7},
                }
            ),
            events(
                {**said("two", finishReason="STOP"), "usageMetadata": {"promptTokenCount": 6, "totalTokenCount": 8}}
            ),
        ]
    )

    async def answer(received: Received, connection: Connection) -> None:
        await next(hops)(received, connection)

    reply, service = answer_of(answer)
    assert reply.message.text == "one two"
    assert (reply.usage.prompt, reply.usage.total) == (11, 15)
    first, second = (json.loads(received.body) for received in service.received)
    assert second == {**first, "continuationToken": "dG9rZW4="}


def test_a_continuation_that_brings_nothing_ends_the_answer() -> None:
    event = {"candidates": [{"finishReason": "CONTINUATION", "continuationToken": "dG9rZW4="}]}
    reply, service = answer_of(events(event))
    assert reply.finish.kind is FinishKind.CUT
    assert len(service.received) == 1


# What a failure says


def test_a_redirect_is_an_error_and_the_key_reaches_no_other_origin() -> None:
    async def run() -> tuple[ModelError, list[Received]]:
        async with serving(events(said("stolen", finishReason="STOP"))) as other:
            redirect = plain(307, b"", Location=f"{other.url}/v1/x")
            async with serving(redirect) as service:
                with pytest.raises(ModelError) as caught:
                    await ask(service.model())
            return caught.value, other.received

    error, received = asyncio.run(run())
    assert "redirect" in error.message
    assert (error.retryable, received) == (False, [])


def test_a_bad_key_is_a_usage_error_that_does_not_show_it() -> None:
    body = {"error": {"code": 400, "message": f"API key not valid: {KEY}", "status": "INVALID_ARGUMENT"}}
    error = failure_of(plain(400, json.dumps(body).encode()))
    assert (error.exit_code, error.retryable) == (ExitCode.USAGE, False)
    assert "[key]" in error.detail


@pytest.mark.parametrize("key", ["", "  ", "naïve-key-ünicode", "two\nlines-of-key", "auth_tokens/abc"])
def test_a_key_that_is_none_is_refused_before_anything_is_sent(key: str) -> None:
    async def run() -> list[Received]:
        async with serving(events()) as service:
            with pytest.raises(ModelError) as caught:
                await ask(service.model(api_key=key))
            assert caught.value.exit_code is ExitCode.USAGE
            return service.received

    assert asyncio.run(run()) == []


@pytest.mark.parametrize("name", ["", "../x", "a?b=c", "models/a/b", "a b", "a#b", "-x", "gemini:x"])
def test_a_name_that_could_change_the_address_is_refused(name: str) -> None:
    with pytest.raises(ModelError) as caught:
        asyncio.run(ask(GeminiModel(GeminiSettings(KEY)), ModelRequest(name, REQUEST.messages)))
    assert caught.value.exit_code is ExitCode.USAGE


def test_a_web_page_instead_of_an_answer_is_named_as_such() -> None:
    error = failure_of(plain(200, b"<!DOCTYPE html><html>Log in to the Wi-Fi</html>", "text/html"))
    assert (error.message, error.retryable) == ("The server answered with a web page instead of JSON.", False)


@pytest.mark.parametrize(
    "body",
    [
        b'data: {"candidates": [{"content"\n\n',
        b"data: NaN\n\n",
        b"data: 7\n\n",
        b'data: {"a":1}\n\n{"error": ',
        b'[{"a": 1}, ',
    ],
)
def test_damaged_json_is_retryable(body: bytes) -> None:
    error = failure_of(plain(200, body, "text/event-stream"))
    assert (error.message, error.retryable) == ("The answer was damaged on the way.", True)


def test_damaged_compression_is_retryable() -> None:
    error = failure_of(plain(200, b"this is no gzip at all", "text/event-stream", Content_Encoding="gzip"))
    assert (error.message, error.retryable) == ("The answer was damaged on the way.", True)


def test_text_before_an_error_inside_the_stream_is_yielded_and_the_error_raised() -> None:
    async def run() -> list[object]:
        tail = {"promptFeedback": {}, "error": {"code": 503, "status": "UNAVAILABLE", "message": "High demand."}}
        seen: list[object] = []
        async with serving(events(said("half"), tail)) as service:
            model = service.model()
            with pytest.raises(ModelError) as caught:
                async for event in model.stream(REQUEST):
                    seen.append(event)
            await model.aclose()
            return [*seen, caught.value.retryable]

    assert asyncio.run(run()) == [TextDelta("half"), True]


def test_a_connection_cut_in_the_middle_is_retryable() -> None:
    async def answer(_: Received, connection: Connection) -> None:
        await connection.start()
        await connection.event(said("half"))
        connection.writer.close()

    error = failure_of(answer)
    assert (error.message, error.retryable) == ("The connection to the API broke off.", True)


def test_a_connection_reset_before_the_answer_is_retryable() -> None:
    async def answer(_: Received, connection: Connection) -> None:
        connection.writer.transport.abort()

    assert failure_of(answer).retryable


def test_silence_ends_with_a_sentence() -> None:
    async def answer(_: Received, connection: Connection) -> None:
        await connection.gone()

    error = failure_of(answer, read_timeout=0.2)
    assert (error.message, error.retryable) == ("The API fell silent for too long.", True)


@pytest.mark.parametrize(
    ("url", "sentence", "exit_code"),
    [
        ("http://127.0.0.1:1", "Cannot reach the API: the connection was refused.", ExitCode.API_ERROR),
        ("http://gemini.invalid", "Cannot reach the API: name not resolved. Are you offline?", ExitCode.API_ERROR),
        ("ftp://127.0.0.1", "The API's address is not valid.", ExitCode.USAGE),
        ("http://[::1", "The API's address is not valid.", ExitCode.USAGE),
    ],
)
def test_an_address_that_does_not_answer_is_explained(url: str, sentence: str, exit_code: ExitCode) -> None:
    with pytest.raises(ModelError) as caught:
        asyncio.run(ask(GeminiModel(GeminiSettings(KEY, url))))
    assert (caught.value.message, caught.value.exit_code) == (sentence, exit_code)


def test_an_address_that_is_no_address_of_a_server_is_explained() -> None:
    with pytest.raises(ModelError) as caught:
        asyncio.run(ask(GeminiModel(GeminiSettings(KEY, "http://255.255.255.255:9"))))
    assert caught.value.message == "Cannot reach the API: the connection failed."


def test_a_connection_that_nobody_accepts_is_explained() -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=0)
    crowd = [socket.socket() for _ in range(8)]
    for each in crowd:
        each.setblocking(False)
        each.connect_ex(listener.getsockname())  # fills the queue, so that no one else gets in
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(ModelError) as caught:
        asyncio.run(ask(GeminiModel(GeminiSettings(KEY, url, connect_timeout=0.3))))
    for each in (listener, *crowd):
        each.close()
    assert caught.value.message == "Cannot reach the API: no connection in time."


def test_plain_http_behind_https_is_explained() -> None:
    async def run() -> ModelError:
        async with serving(events()) as service:
            with pytest.raises(ModelError) as caught:
                await ask(service.model(base_url=service.url.replace("http:", "https:")))
            return caught.value

    assert asyncio.run(run()).message == "Cannot reach the API: no secure connection could be made."


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> list[str]:
        async with serving(events(said("ok", finishReason="STOP"))) as proxy:
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
            await ask(GeminiModel(GeminiSettings(KEY, "http://gemini.invalid")))
            return [received.path for received in proxy.received]

    assert asyncio.run(run())[0].startswith("http://gemini.invalid/v1/models/")


def test_a_proxy_that_refuses_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> ModelError:
        async with serving(plain(407, b"")) as proxy:
            monkeypatch.setenv("HTTPS_PROXY", proxy.url)
            with pytest.raises(ModelError) as caught:
                await ask(GeminiModel(GeminiSettings(KEY, "https://gemini.invalid")))
            return caught.value

    assert asyncio.run(run()).message == "The proxy refused the connection."


def endless(size: int) -> Answer:
    async def answer(_: Received, connection: Connection) -> None:
        await connection.start()
        while True:
            await connection.chunk(b"data: " + json.dumps(said("x" * size)).encode() + b"\n\n")

    return answer


def test_an_answer_without_end_is_stopped() -> None:
    assert "larger than 32 MiB" in failure_of(endless(1_000_000)).message


def test_an_event_without_end_is_stopped() -> None:
    async def answer(_: Received, connection: Connection) -> None:
        await connection.start()
        while True:
            await connection.chunk(b"x" * 1_000_000)

    assert "larger than 16 MiB" in failure_of(answer).message


def test_an_error_body_without_end_is_stopped() -> None:
    async def answer(_: Received, connection: Connection) -> None:
        await connection.start(500)
        while True:
            await connection.chunk(b"x" * 1_000_000)

    assert failure_of(answer).detail == "The answer is larger than 32 MiB."


# Letting go: the server must see the connection close, in every phase. The waits are hang guards only.


async def hold_before_headers(_: Received, connection: Connection) -> None:
    await connection.gone()


async def hold_before_the_first_event(_: Received, connection: Connection) -> None:
    await connection.start()
    await connection.gone()


async def hold_after_an_event(_: Received, connection: Connection) -> None:
    await connection.start()
    await connection.event(said("one"))
    await connection.gone()


@pytest.mark.parametrize("phase", [hold_before_headers, hold_before_the_first_event, hold_after_an_event])
def test_cancelling_closes_the_connection_in_every_phase(phase: Answer) -> None:
    async def run() -> None:
        arrived, left = asyncio.Event(), asyncio.Event()

        async def answer(received: Received, connection: Connection) -> None:
            asyncio.get_running_loop().call_later(0.1, arrived.set)
            await phase(received, connection)
            left.set()

        async with serving(answer) as service:
            model = service.model()

            async def consume() -> None:
                async with aclosing(model.stream(REQUEST)) as stream:
                    async for _ in stream:
                        pass

            consumer = asyncio.create_task(consume())
            await arrived.wait()
            consumer.cancel()
            await asyncio.wait_for(left.wait(), 5)
            assert consumer.cancelled() or await asyncio.wait({consumer}, timeout=5)
            await model.aclose()

    asyncio.run(run())


def test_closing_between_events_while_the_consumer_is_busy_closes_the_connection() -> None:
    async def run() -> None:
        left = asyncio.Event()

        async def answer(received: Received, connection: Connection) -> None:
            await hold_after_an_event(received, connection)
            left.set()

        async with serving(answer) as service:
            model = service.model()
            stream = model.stream(REQUEST)
            assert await anext(stream) == TextDelta("one")
            await asyncio.sleep(0.05)  # the consumer does something else
            await stream.aclose()
            await asyncio.wait_for(left.wait(), 5)
            await model.aclose()

    asyncio.run(run())


def test_a_stream_that_was_left_early_does_not_disturb_the_next() -> None:
    async def run() -> ModelReplied:
        first = True

        async def answer(received: Received, connection: Connection) -> None:
            nonlocal first
            if first:
                first = False
                await hold_after_an_event(received, connection)
            else:
                await events(said("two", finishReason="STOP"))(received, connection)

        async with serving(answer) as service:
            model = service.model()
            async with aclosing(model.stream(REQUEST)) as stream:
                await anext(stream)
            return await ask(model)

    assert asyncio.run(run()).message.text == "two"


def test_an_error_nobody_waited_for_is_not_reported_later(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with serving(events(said("one"), {"error": {"code": 500, "message": "x"}})) as service:
            model = service.model()
            stream = model.stream(REQUEST)
            await anext(stream)
            await asyncio.sleep(0.1)
            await stream.aclose()
            await model.aclose()

    asyncio.run(run())
    assert caplog.text == ""


def test_two_streams_at_once_do_not_mix() -> None:
    async def answer(received: Received, connection: Connection) -> None:
        name = json.loads(received.body)["contents"][0]["parts"][0]["text"]
        await connection.start()
        for _ in range(20):
            await connection.event(said(name))
            await asyncio.sleep(0)
        await connection.event(said("", finishReason="STOP"))
        await connection.end()

    async def run() -> list[str]:
        async with serving(answer) as service:
            model = service.model()

            async def one(name: str) -> str:
                request = ModelRequest("gemini-3.8-flash", (UserMessage.of(name),))
                return [event async for event in model.stream(request)][-1].message.text

            texts = await asyncio.gather(*(one(name) for name in "abc"))
            await model.aclose()
            return texts

    assert asyncio.run(run()) == ["a" * 20, "b" * 20, "c" * 20]


def test_an_untrusted_certificate_is_explained(tmp_path_factory: pytest.TempPathFactory) -> None:
    openssl = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    folder = tmp_path_factory.mktemp("tls")
    files = ["-keyout", str(folder / "key"), "-out", str(folder / "certificate")]
    if subprocess.run([*openssl, *files], capture_output=True).returncode:
        pytest.skip("no openssl here to make a certificate with")

    async def run() -> ModelError:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "certificate", folder / "key")
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0, ssl=context)
        url = f"https://localhost:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(ModelError) as caught:
            await ask(GeminiModel(GeminiSettings(KEY, url)))
        server.close()
        return caught.value

    error = asyncio.run(run())
    assert (error.message, error.retryable) == (
        "Cannot reach the API: the server's certificate is not trusted.",
        False,
    )
