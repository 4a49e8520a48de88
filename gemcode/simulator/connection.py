"""One client's socket: reads requests with h11, writes replies, and can break HTTP on purpose. Knows no Gemini."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

import h11

READ_SIZE = 1 << 16
_REASONS = {status.value: status.phrase for status in HTTPStatus}
_SETTLE_SECONDS = 0.02  # lets the peer's kernel take what was written before a reset throws the rest away


@dataclass(frozen=True, slots=True)
class Incoming:
    """One complete HTTP request."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class Connection:
    """Keep-alive HTTP/1.1 on one socket. After any broken reply it can only be closed."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._writer.transport.set_write_buffer_limits(high=0)  # drain() then means: the kernel has it
        self._http = h11.Connection(h11.SERVER)
        self.byte_delay: float | None = None  # set by the drip fault: every byte alone, this far apart

    async def next_request(self) -> Incoming | None:
        """The next request, or None when the client is done. Raises h11.RemoteProtocolError on broken HTTP."""
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    await self._send(h11.InformationalResponse(status_code=100, headers=[]))
                self._http.receive_data(await self._reader.read(READ_SIZE))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
                return Incoming(head.method.decode(), head.target.decode("latin-1"), headers, bytes(body))
            else:
                return None

    async def wait_gone(self) -> None:
        """Returns when the client closes its end; bytes of a pipelined request are kept for the next round."""
        while data := await self._reader.read(READ_SIZE):
            self._http.receive_data(data)

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Status line and headers; the body is chunked unless the headers say a Content-Length."""
        fields = dict(headers)
        if not any(name.lower() == "content-length" for name in fields):
            fields["Transfer-Encoding"] = "chunked"
        reason = _REASONS.get(status, "")
        await self._send(h11.Response(status_code=status, headers=list(fields.items()), reason=reason))

    async def send(self, data: bytes) -> None:
        if data:
            await self._send(h11.Data(data=data))

    async def finish(self) -> None:
        await self._send(h11.EndOfMessage())

    async def respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        await self.start(status, headers)
        await self.send(body)
        await self.finish()

    async def write_raw(self, data: bytes) -> None:
        """Bytes past h11, for what it would refuse to write."""
        self._writer.write(data)
        await self._writer.drain()

    async def reset(self) -> None:
        """Drops the connection with a TCP reset."""
        await asyncio.sleep(_SETTLE_SECONDS)
        raw = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.abort()

    def abort(self) -> None:
        """Closes at once and throws away what the peer has not taken."""
        self._writer.transport.abort()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):  # the peer was faster: closed is closed
            await self._writer.wait_closed()

    def start_next_round(self) -> bool:
        """Ready for another request on this socket? Only if both sides ended their message properly."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self.byte_delay = None
            return True
        return False

    async def _send(self, event: h11.Event) -> None:
        data = self._http.send(event) or b""
        if self.byte_delay is None:
            await self.write_raw(data)
            return
        for index in range(len(data)):
            await self.write_raw(data[index : index + 1])
            await asyncio.sleep(self.byte_delay)
