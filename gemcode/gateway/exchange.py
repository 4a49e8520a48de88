"""One HTTP exchange over ASGI: read a bounded body, answer with JSON or a stream, stop when the client has gone.

Knows no dialect beyond the protocol, and never logs what it carries.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from gemcode.agent.messages import JsonObject
from gemcode.gateway.config import BODY_LIMIT
from gemcode.gateway.dialect import (
    JSON_TYPE,
    Encoder,
    Ended,
    ErrorReply,
    Failure,
    FailureKind,
    ReplyEvent,
    dump_bytes,
    load,
)

_DRAIN_LIMIT = 4 * BODY_LIMIT
_FULL = 64 * 1024  # bytes that wait for the client


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


class Exchange:
    """The two directions of one request, and what was sent so far."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, patience: float) -> None:
        """`patience` is how many seconds a client may be silent in the middle of its request."""
        self.scope = scope
        self._patience = patience
        self.headers = Headers(scope=scope)
        self.query: str = scope.get("query_string", b"").decode("latin-1")
        self.status = 0  # of the answer, once it has begun
        self._receive = receive
        self._send = send

    async def read_body(self) -> bytes:
        """The whole body. Raises Failure when it is larger than the limit."""
        if self.headers.get("content-encoding", "identity").lower() != "identity":
            raise Failure(FailureKind.INVALID, "Compressed request bodies are not supported.")
        pieces: list[bytes] = []
        size = 0
        while size <= _DRAIN_LIMIT:
            message = await self._next_piece()
            size += len(message.get("body", b""))
            if size > BODY_LIMIT:
                pieces.clear()  # read on, or the client could not hear the answer for its own writing
            else:
                pieces.append(message.get("body", b""))
            if not message.get("more_body", False):
                break
        if size > BODY_LIMIT:
            raise Failure(FailureKind.TOO_LARGE, f"The request is larger than {BODY_LIMIT // (1024 * 1024)} MB.")
        return b"".join(pieces)

    async def _next_piece(self) -> Message:
        try:
            async with asyncio.timeout(self._patience):
                message = await self._receive()
        except TimeoutError:
            raise Failure(FailureKind.INVALID, "The rest of the request did not arrive.") from None
        if message["type"] == "http.disconnect":
            raise ClientGone
        return message

    async def read_json(self) -> JsonObject:
        return parse_object(await self.read_body())

    async def begin(self, status: int, content_type: str, headers: dict[str, str] | None = None) -> None:
        self.status = status
        fields = [(b"content-type", content_type.encode())]
        fields += [(name.encode(), value.encode("latin-1", "replace")) for name, value in (headers or {}).items()]
        await self._send({"type": "http.response.start", "status": status, "headers": fields})

    async def write(self, data: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    async def answer(self, status: int, data: bytes, content_type: str, headers: dict[str, str] | None = None) -> None:
        await self.begin(status, content_type, {**(headers or {}), "content-length": str(len(data))})
        await self.write(data, more=False)

    async def answer_json(self, body: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        await self.answer(status, dump_bytes(body), JSON_TYPE, headers)

    async def answer_error(self, error: ErrorReply) -> None:
        await self.answer_json(error.body, error.status, error.headers)

    async def while_connected(self, work: Awaitable[None]) -> None:
        """Run to the end, unless the client leaves first: then `work` is cancelled. Raises what `work` raises."""
        running = asyncio.ensure_future(work)
        leaving = asyncio.create_task(self._wait_gone())
        try:
            await asyncio.wait({running, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                raise ClientGone
            running.result()
        finally:
            running.cancel()
            leaving.cancel()
            await asyncio.gather(running, leaving, return_exceptions=True)

    async def stream(
        self,
        events: AsyncGenerator[ReplyEvent, None],
        encoder: Encoder,
        ping_seconds: float,
        keep: Callable[[Encoder], None],
    ) -> Failure | None:
        """Frames as they come, a sign of life in between, and the dialect's last frame whatever happens.

        The answer begins with the first event, so that a failure before it still has an HTTP status of its own.
        Returns the failure that broke a stream under way; one before the first byte is raised.
        """
        outbox = _Outbox(self, encoder, ping_seconds)
        try:
            async with aclosing(events):
                async for event in events:
                    frames = encoder.feed(event)
                    if isinstance(event, Ended):
                        keep(encoder)  # before the client knows the end: its next request may build on it
                    await outbox.put(frames)
            await outbox.close()
        except Failure as failure:
            if outbox.untouched and failure.kind not in encoder.told_failures:
                raise
            await outbox.close(encoder.fail(failure))
            return failure
        finally:
            outbox.abandon()
        return None

    async def _wait_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


class _Outbox:
    """Frames on their way to the client: those that are ready together leave in one write, and silence is filled."""

    def __init__(self, exchange: Exchange, encoder: Encoder, ping_seconds: float) -> None:
        self._exchange = exchange
        self._encoder = encoder
        self._ping_seconds = ping_seconds
        self._waiting = b""
        self._ready = asyncio.Event()
        self._writing = asyncio.Lock()
        self._courier = asyncio.create_task(self._carry())

    @property
    def untouched(self) -> bool:
        """Whether the client has heard nothing yet, nor will."""
        return not self._exchange.status and not self._waiting

    async def put(self, frames: bytes) -> None:
        self._waiting += frames
        if len(self._waiting) < _FULL:
            self._ready.set()
        else:
            await self._flush()  # waits for a slow client, and so the service does

    async def close(self, frames: bytes = b"") -> None:
        """The end of the answer."""
        self._waiting += frames
        await self._flush(more=False)

    def abandon(self) -> None:
        self._courier.cancel()

    async def _carry(self) -> None:
        """Its turn comes when whoever fills the outbox has to wait for the service."""
        while True:
            try:
                async with asyncio.timeout(self._ping_seconds):
                    await self._ready.wait()
            except TimeoutError:
                self._waiting += self._encoder.ping()
            await self._flush()

    async def _flush(self, *, more: bool = True) -> None:
        async with self._writing:
            self._ready.clear()
            frames, self._waiting = self._waiting, b""
            if frames and not self._exchange.status:
                await self._exchange.begin(200, self._encoder.content_type, {"cache-control": "no-cache"})
            if frames or not more:
                await self._exchange.write(frames, more=more)


def parse_object(data: bytes) -> JsonObject:
    try:
        value = load(data)
    except RecursionError:
        raise Failure(FailureKind.INVALID, "The request body is nested too deeply.") from None
    except ValueError:
        raise Failure(FailureKind.INVALID, "The request body is not valid JSON.") from None
    if not isinstance(value, dict):
        raise Failure(FailureKind.INVALID, "The request body must be a JSON object.")
    return value
