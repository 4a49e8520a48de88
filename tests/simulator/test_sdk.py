"""The official client against the simulator over real HTTP: what works with Google must work here, and fail alike."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from google import genai
from google.genai import errors, types

from gemcode.simulator.server import Simulator, running_simulator
from gemcode.simulator.service import Settings

NEW = "gemini-3.8-flash"
OLD = "gemini-2.5-flash"
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
DECLARATION = types.FunctionDeclaration(name="read_file", description="Reads.", parameters_json_schema=SCHEMA)
CONFIG = types.GenerateContentConfig(
    tools=[types.Tool(function_declarations=[DECLARATION])],
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
)
VERSIONS = pytest.mark.parametrize("version", ["v1", "v1beta"])


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@contextmanager
def service(
    *replies: dict[str, Any], settings: Settings | None = None, **options: Any
) -> Iterator[tuple[Simulator, genai.Client]]:
    scenario = {"schema": 1, "replies": list(replies)}
    with running_simulator(scenario, settings) as simulator:
        yield simulator, connect(simulator, **options)


def connect(simulator: Simulator, version: str = "v1", key: str = "k", timeout: int = 10_000) -> genai.Client:
    options = types.HttpOptions(base_url=simulator.url, api_version=version, timeout=timeout)
    return genai.Client(api_key=key, http_options=options, vertexai=False)


def chunks(
    client: genai.Client, model: str = NEW, contents: Any = "hi", config: Any = None
) -> list[types.GenerateContentResponse]:
    return list(client.models.generate_content_stream(model=model, contents=contents, config=config))


def parts(response: types.GenerateContentResponse) -> list[types.Part]:
    assert response.candidates
    content = response.candidates[0].content
    return list(content.parts or []) if content else []


@VERSIONS
@pytest.mark.parametrize("model", [NEW, OLD, "gemini-4-argon"])
def test_a_unary_answer(version: str, model: str) -> None:
    with service({"text": ["Hel", "lo"], "thoughts": "hm"}, version=version) as (simulator, client):
        response = client.models.generate_content(model=model, contents="hi")
    assert response.text == "Hello"
    assert response.model_version == model
    assert response.usage_metadata is not None
    assert response.usage_metadata.thoughts_token_count == 1
    assert simulator.requests[0].version == version
    assert simulator.violations == []


@VERSIONS
def test_a_streamed_answer_with_thoughts(version: str) -> None:
    config = types.GenerateContentConfig(
        thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_level="low")
    )
    with service({"thoughts": ["**Plan**"], "text": ["a", "b"]}, version=version) as (simulator, client):
        received = chunks(client, config=config)
    shown = [(part.text, part.thought, bool(part.thought_signature)) for chunk in received for part in parts(chunk)]
    assert shown == [("**Plan**", True, False), ("a", None, False), ("b", None, False), ("", None, True)]
    assert simulator.violations == []


@VERSIONS
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("model", [NEW, "gemini-4-argon", "gemini-3.1-pro-preview", "gemini-3-flash-preview", OLD])
def test_a_round_trip_of_parallel_calls(version: str, stream: bool, model: str) -> None:
    calls = [{"name": "read_file", "args": {"path": path}} for path in ("a", "b")]
    with service({"text": "I look.", "calls": calls}, {"calls": calls[:1]}, {"text": "done"}, version=version) as (
        simulator,
        client,
    ):
        history: list[types.Content] = [types.UserContent("hi")]
        for _ in range(2):
            history += answered(one_turn(client, model, history, stream=stream))
        assert one_turn(client, model, history, stream=stream)[0].text == "done"
    assert simulator.violations == []
    assert len(simulator.requests) == 3


def one_turn(client: genai.Client, model: str, history: list[types.Content], *, stream: bool) -> list[types.Part]:
    if stream:
        return [part for chunk in chunks(client, model, history, CONFIG) for part in parts(chunk)]
    return parts(client.models.generate_content(model=model, contents=history, config=CONFIG))


def answered(replied: list[types.Part]) -> list[types.Content]:
    results = []
    for part in replied:
        if part.function_call:
            response = types.FunctionResponse(
                id=part.function_call.id, name=part.function_call.name, response={"output": "text"}
            )
            results.append(types.Part(function_response=response))
    return [types.ModelContent(replied), types.UserContent(results)]


def test_a_lost_signature_is_refused() -> None:
    with service({"calls": [{"name": "read_file", "args": {}}]}) as (simulator, client):
        (replied, _) = one_turn(client, NEW, [types.UserContent("hi")], stream=True)
        stripped = types.Part(function_call=replied.function_call)
        with pytest.raises(errors.ClientError, match="missing a thought_signature"):
            one_turn(client, NEW, [types.UserContent("hi"), *answered([stripped])], stream=True)
    assert "position 2" in simulator.violations[0].message


def test_the_documented_escape_is_accepted() -> None:
    call = types.FunctionCall(name="read_file", args={"path": "a"}, id="made-up")
    part = types.Part(function_call=call, thought_signature=b"skip_thought_signature_validator")
    with service({"text": "done"}) as (simulator, client):
        one_turn(client, NEW, [types.UserContent("hi"), *answered([part])], stream=True)
    assert simulator.violations == []


@VERSIONS
def test_2_5_sends_calls_and_finish_in_one_event(version: str) -> None:
    calls = [{"name": "read_file", "args": {"path": "a"}}, {"name": "read_file", "args": {"path": "b"}}]
    with service({"calls": calls}, version=version) as (_, client):
        (event,) = chunks(client, OLD, config=CONFIG)
    assert [bool(part.thought_signature) for part in parts(event)] == [True, False]
    assert all(part.function_call and part.function_call.id is None for part in parts(event))
    assert event.candidates
    assert event.candidates[0].finish_reason == types.FinishReason.STOP


@VERSIONS
def test_counting_and_listing(version: str) -> None:
    with service(version=version) as (simulator, client):
        assert client.models.count_tokens(model=NEW, contents="hi").total_tokens == 10
        names = [model.name for model in client.models.list(config={"page_size": 4})]
        model = client.models.get(model=NEW)
    assert f"models/{NEW}" in names
    assert len(names) == len(set(names)) >= 13
    assert ("models/gemini-pro-latest" in names) is (version == "v1beta")
    assert model.input_token_limit == 1_048_576
    assert simulator.violations == []


def test_explicit_caches() -> None:
    with service({"text": "a"}, version="v1beta") as (_, client):
        cache = client.caches.create(model=NEW, config={"contents": ["word " * 2000], "ttl": "60s"})
        config = types.GenerateContentConfig(cached_content=cache.name)
        response = client.models.generate_content(model=NEW, contents="hi", config=config)
        assert response.usage_metadata
        assert (response.usage_metadata.cached_content_token_count or 0) >= 2000
        client.caches.delete(name=str(cache.name))
        with pytest.raises(errors.ClientError, match="CachedContent not found"):
            client.caches.get(name=str(cache.name))


@pytest.mark.parametrize(
    ("name", "kind", "code", "status"),
    [
        ("quota_per_minute", errors.ClientError, 429, "RESOURCE_EXHAUSTED"),
        ("high_demand", errors.ServerError, 503, "UNAVAILABLE"),
        ("internal", errors.ServerError, 500, "INTERNAL"),
        ("deadline", errors.ServerError, 504, "DEADLINE_EXCEEDED"),
        ("location", errors.ClientError, 400, "FAILED_PRECONDITION"),
        ("service_disabled", errors.ClientError, 403, "PERMISSION_DENIED"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_errors_are_mapped(name: str, kind: type[errors.APIError], code: int, status: str, stream: bool) -> None:
    with service({"http_error": {"name": name}}) as (_, client), pytest.raises(kind) as caught:
        if stream:
            chunks(client)
        else:
            client.models.generate_content(model=NEW, contents="hi")
    assert (caught.value.code, caught.value.status) == (code, status)


def test_a_bad_key_and_an_unknown_model() -> None:
    with service({"text": "a"}) as (simulator, client):
        stranger = connect(simulator, key="invalid")
        with pytest.raises(errors.ClientError, match="API key not valid") as caught:
            stranger.models.generate_content(model=NEW, contents="hi")
        assert caught.value.code == 400
        with pytest.raises(errors.ClientError, match="for API version v1,") as caught:
            client.models.generate_content(model="gemini-flash-latest", contents="hi")
        assert caught.value.code == 404


@pytest.mark.parametrize(
    ("kind", "failure"),
    [
        ("reset", httpx2.ReadError),
        ("cut", httpx2.RemoteProtocolError),
        ("chunk_lie", httpx2.RemoteProtocolError),
        ("half_event", errors.UnknownApiResponseError),
        ("garbage", errors.UnknownApiResponseError),
        ("error_event", errors.ServerError),
        ("bare_error_tail", errors.ServerError),
        ("silence", httpx2.ReadTimeout),
    ],
)
def test_a_stream_that_breaks_after_its_first_event(kind: str, failure: type[Exception]) -> None:
    fault = {"kind": kind, "after": 1}
    with service({"text": ["one", "two"], "fault": fault}, timeout=1000) as (_, client):
        stream = client.models.generate_content_stream(model=NEW, contents="hi")
        assert next(iter(stream)).text == "one"
        with pytest.raises(failure):
            list(stream)


@pytest.mark.parametrize(
    ("kind", "failure"),
    [
        ("hang_up", httpx2.RemoteProtocolError),
        ("not_http", httpx2.RemoteProtocolError),
        ("content_length_lie", httpx2.RemoteProtocolError),
        ("gzip_broken", httpx2.DecodingError),
    ],
)
def test_a_stream_that_breaks_from_the_start(kind: str, failure: type[Exception]) -> None:
    with service({"text": "one", "fault": {"kind": kind}}) as (_, client), pytest.raises(failure):
        chunks(client)


def test_a_slow_drip_arrives_whole() -> None:
    with service({"text": ["ö" * 20, "two"], "fault": {"kind": "drip", "seconds": 0.0005}}) as (_, client):
        assert "".join(chunk.text or "" for chunk in chunks(client)) == "ö" * 20 + "two"


def test_a_stream_may_end_without_a_finish_reason() -> None:
    with service({"text": ["a", "b"], "finish": None}) as (_, client):
        received = chunks(client)
    assert [chunk.candidates and chunk.candidates[0].finish_reason for chunk in received] == [None, None]


def test_a_continued_answer_is_joined_by_the_client() -> None:
    text = "word " * 100
    with service({"text": text}, settings=Settings(output_limit=50)) as (simulator, client):
        assert client.models.generate_content(model="gemini-4-argon", contents="hi").text == text
    assert len(simulator.requests) == 3
    assert simulator.violations == []


def test_a_cancelled_request_is_seen_as_a_disconnect() -> None:
    async def run(client: genai.Client) -> None:
        call = asyncio.create_task(client.aio.models.generate_content(model=NEW, contents="hi"))
        while not simulator.requests:
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await client.aio.aclose()

    with service({"delay_first": 600}) as (simulator, client):
        asyncio.run(run(client))
        assert simulator.requests[0].disconnected.wait(10)
