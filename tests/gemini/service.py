"""A scripted HTTP/1.1 service on loopback: records what it is sent, byte for byte, and answers as a test tells it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from gemcode.gemini.client import GeminiModel
from gemcode.gemini.settings import GeminiSettings

KEY = "AIza-test-key-0123456789"


@dataclass
class Received:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Answer = Callable[[Received, "Connection"], Awaitable[None]]


@dataclass
class Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def start(self, status: int = 200, content_type: str = "text/event-stream", **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} Status", f"Content-Type: {content_type}", "Transfer-Encoding: chunked"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.send("\r\n".join([*lines, "", ""]).encode())

    async def chunk(self, data: bytes) -> None:
        await self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def event(self, value: object) -> None:
        await self.chunk(b"data: " + json.dumps(value).encode() + b"\r\n\r\n")

    async def end(self) -> None:
        await self.send(b"0\r\n\r\n")

    async def gone(self) -> None:
        """Wait until the other side has closed the connection."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(1024):
                pass


@dataclass
class Service:
    answer: Answer
    url: str = ""
    received: list[Received] = field(default_factory=list)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tasks.add(asyncio.create_task(self.serve(reader, writer)))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await _read_request(reader):
                self.received.append(request)
                await self.answer(request, Connection(reader, writer))
                if writer.is_closing():
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def model(self, **settings: object) -> GeminiModel:
        return GeminiModel(GeminiSettings(**{"api_key": KEY, "base_url": self.url, **settings}))


async def _read_request(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    method, path, _ = first.split(" ")
    return Received(method, path, headers, body)


@contextlib.asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[Service]:
    service = Service(answer)
    server = await asyncio.start_server(service.accept, "127.0.0.1", 0)
    service.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield service
    finally:
        server.close()
        for task in service.tasks:
            task.cancel()
        await asyncio.gather(*service.tasks, return_exceptions=True)


def events(*values: object) -> Answer:
    """A complete stream of these events."""

    async def answer(_: Received, connection: Connection) -> None:
        await connection.start()
        for value in values:
            await connection.event(value)
        await connection.end()

    return answer


def plain(status: int, body: bytes, content_type: str = "application/json", **headers: str) -> Answer:
    """One answer with this body."""

    async def answer(_: Received, connection: Connection) -> None:
        await connection.start(status, content_type, **headers)
        await connection.chunk(body) if body else None
        await connection.end()

    return answer


def said(text: str, **candidate: object) -> dict[str, object]:
    """An event with one text part."""
    return {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, **candidate}]}
