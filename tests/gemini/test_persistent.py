import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from gemcode.agent.errors import ExitCode, ModelError
from gemcode.agent.messages import ModelMessage, ModelRequest, Text, UserMessage
from gemcode.agent.model import Finish, FinishKind, ModelEvent, ModelReplied, Retrying, TextDelta
from gemcode.gemini.persistent import PersistentModel

REQUEST = ModelRequest("gemini-3.8-flash", (UserMessage.of("hi"),))
GOOD = ModelReplied(ModelMessage((Text("yes"),)), Finish(FinishKind.COMPLETE, "STOP"))
EMPTY = ModelReplied(ModelMessage(()), Finish(FinishKind.EMPTY, "STOP"))
MALFORMED = ModelReplied(ModelMessage(()), Finish(FinishKind.MALFORMED, "MALFORMED_FUNCTION_CALL", "now("))
OVERLOADED = ModelError("The model is overloaded.", retryable=True)


class Script:
    """A model that plays one list of events per request; an exception in it is raised."""

    def __init__(self, *attempts: list[ModelEvent | ModelError]) -> None:
        self.attempts = list(attempts)
        self.requests: list[ModelRequest] = []
        self.closed = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        try:
            for event in self.attempts.pop(0):
                if isinstance(event, ModelError):
                    raise event
                yield event
        finally:
            self.closed += 1


def play(script: Script) -> tuple[list[ModelEvent], list[float]]:
    waits: list[float] = []

    async def sleep(delay: float) -> None:
        waits.append(delay)

    async def run() -> list[ModelEvent]:
        return [event async for event in PersistentModel(script, sleep=sleep, draw=lambda: 0.5).stream(REQUEST)]

    return asyncio.run(run()), waits


def test_a_good_answer_passes_through() -> None:
    assert play(Script([TextDelta("yes"), GOOD])) == ([TextDelta("yes"), GOOD], [])


def test_a_failed_attempt_is_voided_and_tried_again() -> None:
    script = Script([TextDelta("ha"), OVERLOADED], [TextDelta("hal"), EMPTY], [TextDelta("yes"), GOOD])
    events, waits = play(script)
    assert events == [
        TextDelta("ha"),
        Retrying("The model is overloaded.", 0.5, 1, 5),
        TextDelta("hal"),
        Retrying("The answer was empty.", 0.5, 2, 4),
        TextDelta("yes"),
        GOOD,
    ]
    assert waits == [0.5, 0.5]
    assert script.closed == 3


def test_the_delay_of_the_server_is_waited_for_exactly() -> None:
    quota = ModelError("The limit per minute is reached.", retryable=True, delay=34.4)
    assert play(Script([quota], [GOOD]))[1] == [34.4]


def test_the_last_error_is_raised_when_the_attempts_are_used_up() -> None:
    script = Script(*[[OVERLOADED]] * 5, [GOOD])
    with pytest.raises(ModelError) as caught:
        play(script)
    assert caught.value is OVERLOADED
    assert len(script.requests) == 5


def test_waits_add_up_to_the_limit() -> None:
    quota = ModelError("The limit per minute is reached.", exit_code=ExitCode.QUOTA, retryable=True, delay=50.0)
    script = Script(*[[quota]] * 5)
    with pytest.raises(ModelError, match="longer than") as caught:
        play(script)
    assert caught.value.exit_code is ExitCode.QUOTA
    assert len(script.requests) == 3


def test_a_weak_answer_stands_in_the_end() -> None:
    events, _ = play(Script(*[[MALFORMED]] * 4, [GOOD]))
    assert [type(event) for event in events] == [Retrying, Retrying, Retrying, ModelReplied]
    assert events[-1] == MALFORMED


def test_only_the_attempts_after_a_malformed_call_carry_a_nudge() -> None:
    script = Script([MALFORMED], [EMPTY], [OVERLOADED], [GOOD])
    play(script)
    assert [len(request.messages) for request in script.requests] == [1, 2, 1, 1]


def test_an_answer_without_an_end_is_an_error_that_is_tried_again() -> None:
    events, _ = play(Script([TextDelta("half")], [GOOD]))
    assert events[-1] == GOOD


def test_cancelling_ends_the_wait_at_once() -> None:
    async def run() -> float:
        quota = ModelError("The limit per minute is reached.", retryable=True, delay=100.0)
        model = PersistentModel(Script([quota], [GOOD]))
        waiting = asyncio.Event()

        async def consume() -> None:
            async with aclosing(model.stream(REQUEST)) as events:
                async for _ in events:
                    waiting.set()

        consumer = asyncio.create_task(consume())
        await waiting.wait()
        await asyncio.sleep(0)
        started = asyncio.get_running_loop().time()
        consumer.cancel()
        await asyncio.wait({consumer})
        assert consumer.cancelled()
        return asyncio.get_running_loop().time() - started

    assert asyncio.run(run()) < 50


def test_closing_in_the_middle_closes_the_attempt() -> None:
    async def run() -> int:
        script = Script([TextDelta("a"), TextDelta("b"), GOOD])
        async with aclosing(PersistentModel(script).stream(REQUEST)) as events:
            await anext(events)
        return script.closed

    assert asyncio.run(run()) == 1


def test_refused_signatures_are_not_sent_again_in_the_same_conversation() -> None:
    signed = ModelMessage((Text("before", raw={"text": "before", "thoughtSignature": "AAAA"}),))
    refusal = ModelError("Refused.", exit_code=ExitCode.API_ERROR, detail="Corrupted thought signature.")
    script = Script([refusal], [GOOD], [GOOD], [GOOD])
    first = ModelRequest("gemini-3.8-flash", (UserMessage.of("hi"), signed, UserMessage.of("on")))
    fresh = ModelMessage((Text("new", raw={"text": "new", "thoughtSignature": "BBBB"}),))
    second = ModelRequest("gemini-3.8-flash", (*first.messages, fresh, UserMessage.of("more")))
    other = ModelRequest("gemini-3.7-flash", second.messages)

    async def run() -> None:
        model = PersistentModel(script)
        for request in (first, second, other):
            async for _ in model.stream(request):
                pass

    def signatures(request: ModelRequest) -> list[str]:
        parts = [part for message in request.messages if isinstance(message, ModelMessage) for part in message.parts]
        return [part.raw["thoughtSignature"] for part in parts if part.raw and "thoughtSignature" in part.raw]

    asyncio.run(run())
    assert [signatures(request) for request in script.requests] == [["AAAA"], [], ["BBBB"], ["AAAA", "BBBB"]]
