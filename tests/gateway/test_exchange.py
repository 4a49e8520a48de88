"""One exchange over ASGI: what is ready together leaves together, in order, and a slow client slows the service."""

import asyncio
from collections.abc import AsyncGenerator, Iterable

from starlette.types import Message

from gemcode.agent.messages import ModelRequest, Text, Usage, UserMessage
from gemcode.agent.model import Finish, FinishKind
from gemcode.gateway.chat import ChatDialect
from gemcode.gateway.dialect import Asked, Ended, Failure, FailureKind, ReplyEvent, Started
from gemcode.gateway.exchange import Exchange
from tests.gateway import grammars
from tests.gateway.support import MODEL

ASKED = Asked(MODEL, ModelRequest(MODEL, (UserMessage.of("hi"),)), stream=True)
END = Ended(Finish(FinishKind.COMPLETE, "STOP"), Usage())


class Client:
    """An ASGI client that keeps what it is sent; it may refuse to take more for a while."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.reading = asyncio.Event()
        self.reading.set()

    async def send(self, message: Message) -> None:
        await self.reading.wait()
        if message["type"] == "http.response.body":
            self.writes.append(message["body"])

    async def receive(self) -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def hear(self, events: AsyncGenerator[ReplyEvent, None]) -> None:
        exchange = Exchange({"type": "http", "headers": []}, self.receive, self.send, 60)
        await exchange.stream(events, ChatDialect().encoder(ASKED), 60, lambda encoder: None)

    @property
    def text(self) -> str:
        return grammars.chat(b"".join(self.writes)).text


async def at_once(events: Iterable[ReplyEvent]) -> AsyncGenerator[ReplyEvent, None]:
    for event in events:
        yield event


def test_what_arrived_together_leaves_in_one_write() -> None:
    async def run() -> None:
        client = Client()
        await client.hear(at_once([Started(Usage()), *(Text(f"{n} ") for n in range(20)), END]))
        assert len(client.writes) == 1
        assert client.text == "".join(f"{n} " for n in range(20))

    asyncio.run(run())


def test_what_arrives_is_passed_on_while_more_is_waited_for() -> None:
    async def run() -> None:
        client = Client()

        async def slowly() -> AsyncGenerator[ReplyEvent, None]:
            yield Started(Usage())
            for number in range(5):
                yield Text(f"{number} ")
                async with asyncio.timeout(20):
                    while f'"{number} "'.encode() not in b"".join(client.writes):
                        await asyncio.sleep(0)
            yield END

        await client.hear(slowly())
        assert client.text == "0 1 2 3 4 " and len(client.writes) == 6

    asyncio.run(run())


def test_a_client_that_does_not_read_keeps_the_service_from_going_on() -> None:
    async def run() -> None:
        client, told = Client(), 0

        async def much() -> AsyncGenerator[ReplyEvent, None]:
            nonlocal told
            yield Started(Usage())
            for _ in range(1000):
                told += 1
                yield Text("x" * 1000)
                await asyncio.sleep(0)
            yield END

        client.reading.clear()
        hearing = asyncio.create_task(client.hear(much()))
        for _ in range(3000):
            await asyncio.sleep(0)
        assert told < 200
        client.reading.set()
        await hearing
        assert client.text == "x" * 1_000_000

    asyncio.run(run())


def test_a_client_that_leaves_while_a_write_waits_for_it_leaves_nothing_running() -> None:
    async def run() -> None:
        client, closed = Client(), False

        async def endless() -> AsyncGenerator[ReplyEvent, None]:
            nonlocal closed
            try:
                yield Started(Usage())
                while True:
                    yield Text("x" * 1000)
                    await asyncio.sleep(0)
            finally:
                closed = True

        client.reading.clear()
        hearing = asyncio.create_task(client.hear(endless()))
        for _ in range(1000):
            await asyncio.sleep(0)
        hearing.cancel()
        await asyncio.wait({hearing})
        await asyncio.sleep(0)
        assert hearing.cancelled() and closed
        assert asyncio.all_tasks() == {asyncio.current_task()}
        client.reading.set()
        await asyncio.sleep(0)
        assert client.writes == []

    asyncio.run(run())


def test_a_failure_behind_words_that_still_wait_for_the_client_comes_after_them_and_last() -> None:
    async def run() -> None:
        client = Client()

        async def breaking() -> AsyncGenerator[ReplyEvent, None]:
            yield Started(Usage())
            yield Text("first ")
            await asyncio.sleep(0.01)  # the courier is at the door with these
            yield Text("second")
            raise Failure(FailureKind.SERVER, "It broke.")

        client.reading.clear()
        hearing = asyncio.create_task(client.hear(breaking()))
        await asyncio.sleep(0.05)
        client.reading.set()
        await hearing
        told = grammars.chat(b"".join(client.writes))
        assert told.text == "first second" and told.failed

    asyncio.run(run())
