"""The whole room against the built-in simulator, which refuses what the real service refuses."""

import asyncio
from typing import Any

import pytest

from gemcode.agent.errors import ExitCode, ModelError
from gemcode.agent.messages import (
    Message,
    ModelMessage,
    ModelRequest,
    ToolCall,
    ToolDeclaration,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from gemcode.agent.model import FinishKind, Metered, ModelEvent, ModelReplied, Retrying, TextDelta
from gemcode.gemini.client import GeminiModel
from gemcode.gemini.persistent import PersistentModel
from gemcode.gemini.settings import GeminiSettings
from gemcode.simulator.server import Simulator, running_simulator

MODEL = "gemini-3.8-flash"
TOOLS = (ToolDeclaration("now", "Tells the time.", {"type": "object", "properties": {}}),)


def scenario(*replies: dict[str, Any]) -> dict[str, Any]:
    return {"schema": 1, "replies": list(replies)}


async def ask(simulator: Simulator, messages: list[Message], waits: list[float] | None = None) -> list[ModelEvent]:
    async def sleep(delay: float) -> None:
        if waits is not None:
            waits.append(delay)

    inner = GeminiModel(GeminiSettings("simulated-key", simulator.url))
    try:
        request = ModelRequest(MODEL, messages, tools=TOOLS)
        return [event async for event in PersistentModel(inner, sleep=sleep).stream(request)]
    finally:
        await inner.aclose()


def answer(events: list[ModelEvent]) -> ModelReplied:
    assert isinstance(events[-1], ModelReplied)
    return events[-1]


def test_calls_go_and_results_come_until_the_final_text() -> None:
    calls = {"calls": [{"name": "now"}, {"name": "now", "args": {"zone": "UTC"}}]}
    with running_simulator(scenario(calls, {"text": "Wait."} | calls, {"text": ["It is", " noon."]})) as simulator:

        async def run() -> str:
            messages: list[Message] = [UserMessage.of("What time is it?")]
            while True:
                reply = answer(await ask(simulator, messages))
                messages.append(reply.message)
                if not reply.message.calls:
                    return reply.message.text
                results = (ToolResult(call.id, call.name, {"output": "12:00"}) for call in reply.message.calls)
                messages.append(ToolMessage(tuple(results)))

        assert asyncio.run(run()) == "It is noon."
        assert (len(simulator.requests), simulator.violations) == (3, [])


def test_a_call_made_by_hand_is_accepted() -> None:
    history: list[Message] = [
        UserMessage.of("Go."),
        ModelMessage((ToolCall("mine", "now", {}),)),
        ToolMessage((ToolResult("mine", "now", {"output": "12:00"}),)),
    ]
    with running_simulator(scenario({"text": "Noon."})) as simulator:
        assert answer(asyncio.run(ask(simulator, history))).message.text == "Noon."
        assert simulator.violations == []


def test_a_signature_the_service_does_not_know_is_repaired_once() -> None:
    raw = {"functionCall": {"name": "now", "args": {}, "id": "x"}, "thoughtSignature": "bm90IGEgc2lnbmF0dXJl"}
    history: list[Message] = [
        UserMessage.of("Go."),
        ModelMessage((ToolCall("x", "now", {}, raw["thoughtSignature"], raw),)),
        ToolMessage((ToolResult("x", "now", {"output": "12:00"}),)),
    ]
    with running_simulator(scenario({"text": "Noon."})) as simulator:
        events = asyncio.run(ask(simulator, history))
        assert [type(event) for event in events] == [Retrying, Metered, TextDelta, ModelReplied]
        assert len(simulator.violations) == 1


@pytest.mark.parametrize(
    ("name", "exit_code", "requests"),
    [
        ("key_invalid", ExitCode.USAGE, 1),
        ("key_missing", ExitCode.USAGE, 1),
        ("service_disabled", ExitCode.USAGE, 1),
        ("location", ExitCode.USAGE, 1),
        ("billing", ExitCode.USAGE, 1),
        ("not_found", ExitCode.USAGE, 1),
        ("invalid_argument", ExitCode.API_ERROR, 1),
        ("input_too_long", ExitCode.API_ERROR, 1),
        ("quota_per_day", ExitCode.QUOTA, 1),
        ("quota_no_free_tier", ExitCode.QUOTA, 1),
        ("quota_per_minute", ExitCode.QUOTA, 5),
        ("capacity", ExitCode.QUOTA, 5),
    ],
)
def test_an_error_ends_with_its_code_after_as_many_tries_as_it_is_worth(
    name: str, exit_code: ExitCode, requests: int
) -> None:
    reply = {"http_error": {"name": name, "retry_after": 3.0}, "repeat": "forever"}
    with running_simulator(scenario(reply)) as simulator:
        with pytest.raises(ModelError) as caught:
            asyncio.run(ask(simulator, [UserMessage.of("Go.")]))
        assert caught.value.exit_code is exit_code
        assert len(simulator.requests) == requests


def test_the_wait_that_the_service_asks_for_is_kept_exactly() -> None:
    waits: list[float] = []
    reply = {"http_error": {"name": "quota_per_minute", "retry_after": 7.0}}
    with running_simulator(scenario(reply, {"text": "Noon."})) as simulator:
        assert answer(asyncio.run(ask(simulator, [UserMessage.of("Go.")], waits))).message.text == "Noon."
    assert waits == [7.0]


def test_weak_answers_are_asked_for_again() -> None:
    bad = {"finish": "MALFORMED_FUNCTION_CALL", "finish_message": "Malformed function call: now("}
    with running_simulator(
        scenario(bad, {"finish": "STOP"}, {"text": "Half", "finish": None}, {"text": "Noon."})
    ) as simulator:
        events = asyncio.run(ask(simulator, [UserMessage.of("Go.")]))
    assert answer(events).message.text == "Noon."
    assert [event.attempt for event in events if isinstance(event, Retrying)] == [1, 2, 3]


def test_a_blocked_prompt_is_told_as_such() -> None:
    with running_simulator(scenario({"blocked": "SAFETY"})) as simulator:
        assert answer(asyncio.run(ask(simulator, [UserMessage.of("Go.")]))).finish.kind is FinishKind.BLOCKED


def test_one_model_serves_several_event_loops_one_after_the_other() -> None:
    with running_simulator(scenario({"text": "Noon.", "repeat": "forever"})) as simulator:
        model = GeminiModel(GeminiSettings("simulated-key", simulator.url))
        request = ModelRequest(MODEL, (UserMessage.of("Go."),))

        async def run() -> ModelEvent:
            return [event async for event in model.stream(request)][-1]

        assert answer([asyncio.run(run())]).message.text == "Noon."
        assert answer([asyncio.run(run())]).message.text == "Noon."
