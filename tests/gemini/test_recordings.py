"""Every answer we know, recorded from the real service or shaped by us, decoded alone and through the SDK over HTTP."""

import asyncio
import json

import pytest

from gemcode.agent.errors import ModelError
from gemcode.agent.messages import ModelMessage, ModelRequest
from gemcode.agent.model import FinishKind, ModelReplied, TextDelta
from gemcode.gemini import failures, wire
from gemcode.gemini.reply import StreamDecoder
from tests.gemini.samples import RECORDINGS, Sample, answered, comparable, recordings, samples, shape, shape_names
from tests.gemini.service import Answer, Connection, Received, serving

SAMPLES = samples()
IDS = [sample.name for sample in SAMPLES]


def decode(sample: Sample) -> ModelReplied:
    decoder = StreamDecoder(sample.request)
    for event in sample.events:
        decoder.feed(event)
    if sample.tail:
        decoder.feed(json.loads(sample.tail))
    return decoder.finish()


def fails(sample: Sample) -> bool:
    return sample.status != 200 or bool(sample.tail)


def calls_in_pieces(sample: Sample) -> bool:
    return any("willContinue" in part.get("functionCall", {}) for part in sample.received_parts)


def assert_nothing_lost(sample: Sample, reply: ModelReplied) -> None:
    """What comes back to the service is what it sent: same parts, same order, same signatures."""
    complete = reply.finish.kind is FinishKind.COMPLETE
    expected = [part for part in sample.received_parts if complete or "functionCall" not in part]
    body = wire.encode_request(ModelRequest(sample.model, answered(reply.message)))
    sent = [part for content in body["contents"] if content["role"] == "model" for part in content["parts"]]
    if calls_in_pieces(sample):
        signatures = [part["thoughtSignature"] for part in expected if "thoughtSignature" in part]
        assert [part["thoughtSignature"] for part in sent if "thoughtSignature" in part] == signatures
        names = [part["functionCall"]["name"] for part in expected if part.get("functionCall", {}).get("name")]
        assert [part["functionCall"]["name"] for part in sent if "functionCall" in part] == names
        return
    assert comparable(sent) == comparable([with_payload(part) for part in expected])
    assert_results_pair(body["contents"])


def with_payload(part: dict[str, object]) -> dict[str, object]:
    return {"text": "", **part} if part.keys() <= {"thoughtSignature"} else part


def assert_results_pair(contents: list[dict[str, list[dict[str, dict[str, object]]]]]) -> None:
    called = [part["functionCall"] for content in contents for part in content["parts"] if "functionCall" in part]
    given = [
        part["functionResponse"] for content in contents for part in content["parts"] if "functionResponse" in part
    ]
    assert [(call.get("id"), call["name"]) for call in called] == [(item.get("id"), item["name"]) for item in given]


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_an_answer_is_decoded_and_replayed_without_loss(sample: Sample) -> None:
    if sample.status != 200:
        error = failures.from_response(sample.status, json.dumps(sample.events[0]).encode(), sample.model)
        assert error.message.endswith(".")
    elif sample.tail:
        with pytest.raises(ModelError):
            decode(sample)
    else:
        assert_nothing_lost(sample, decode(sample))


def replaying(sample: Sample) -> Answer:
    async def answer(_: Received, connection: Connection) -> None:
        if sample.status != 200:
            await connection.start(sample.status, "application/json; charset=UTF-8")
            await connection.chunk(json.dumps(sample.events[0], indent=2).encode())
        else:
            await connection.start()
            for event in sample.events:
                await connection.event(event)
            if sample.tail:
                await connection.chunk(sample.tail.encode())
        await connection.end()

    return answer


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_an_answer_comes_through_the_sdk_without_loss(sample: Sample) -> None:
    async def ask() -> None:
        async with serving(replaying(sample)) as service:
            model = service.model()
            text, reply = "", None
            async for event in model.stream(sample.request):
                if isinstance(event, TextDelta):
                    text += event.text
                elif isinstance(event, ModelReplied):
                    reply = event
            await model.aclose()
        assert reply is not None
        assert reply.message.text == text
        assert_nothing_lost(sample, reply)

    if fails(sample):
        with pytest.raises(ModelError) as caught:
            asyncio.run(ask())
        assert caught.value.detail
    else:
        asyncio.run(ask())


@pytest.mark.parametrize("name", shape_names())
def test_a_shape_means_what_it_says(name: str) -> None:
    expected = shape(name)
    reply = decode(next(sample for sample in SAMPLES if sample.name == name))
    assert reply.message.text == expected["text"]
    assert [[call.name, call.args] for call in reply.message.calls] == expected["calls"]
    assert (reply.finish.kind, reply.finish.reason) == (expected["kind"], expected["reason"])
    assert len({call.id for call in reply.message.calls}) == len(reply.message.calls)
    if "usage" in expected:
        usage = reply.usage
        counted = [usage.prompt, usage.cached, usage.output, usage.thought, usage.tool_prompt, usage.total]
        assert counted == expected["usage"]


def test_the_recordings_are_at_hand() -> None:
    if not RECORDINGS.is_dir():
        pytest.skip("no recordings beside the project (../shared/recordings)")
    assert len(recordings()) > 100


def test_an_empty_message_is_not_sent() -> None:
    body = wire.encode_request(ModelRequest("gemini-3.8-flash", answered(ModelMessage(()))))
    assert [content["role"] for content in body["contents"]] == ["user"]
