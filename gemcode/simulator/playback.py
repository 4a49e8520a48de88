"""Plays events onto a connection: framing, delays and faults. Knows HTTP and SSE, but not what the events mean."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gemcode.simulator.connection import Connection
from gemcode.simulator.errors import READY_MADE
from gemcode.simulator.reply import JSON_TYPE, Fault, Reply
from gemcode.simulator.shapes import Event

COMMON_HEADERS: Mapping[str, str] = {
    "Vary": "Origin, X-Origin, Referer",
    "Server": "scaffolding on HTTPServer2",
    "X-Content-Type-Options": "nosniff",
    "Server-Timing": "gfet4t7; dur=42",
}
BROKEN_EVENT = b'data: {"candidates": [{"content": {{{\r\n\r\n'


@dataclass(frozen=True, slots=True)
class Framing:
    """How events become bytes: SSE lines, one streamed JSON array, or one pretty-printed body."""

    form: Literal["sse", "array", "unary"]

    @property
    def content_type(self) -> str:
        return "text/event-stream" if self.form == "sse" else JSON_TYPE

    def encode(self, body: Any, index: int) -> bytes:
        if self.form == "sse":
            return b"data: " + json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\r\n\r\n"
        text = pretty(body)
        return text if self.form == "unary" else (b"[" if index == 0 else b",\r\n") + text.rstrip(b"\n")

    def tail(self, count: int) -> bytes:
        if self.form != "array":
            return b""
        return b"]\n" if count else b"[]\n"


def pretty(body: Any) -> bytes:
    return json.dumps(body, indent=2, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


async def play(connection: Connection, reply: Reply, events: Sequence[Event], framing: Framing) -> None:
    """Sends the events with the reply's delays and fault. A fault that breaks HTTP closes the connection."""
    fault = reply.fault
    await asyncio.sleep(reply.delay_first)
    headers = {"Content-Type": framing.content_type, **COMMON_HEADERS, "X-Gemini-Service-Tier": "standard"}
    encoded = [framing.encode(event.body, index) for index, event in enumerate(events)]
    tail = framing.tail(len(events))
    if fault is not None and await _fault_at_start(connection, fault, headers, b"".join(encoded) + tail):
        return
    await connection.start(200, headers)
    for index, (event, data) in enumerate(zip(events, encoded, strict=True)):
        if fault is not None and index == fault.after and await _fault_between(connection, fault, data, framing, index):
            return
        await asyncio.sleep(event.pause + (reply.delay_between if index else 0.0))
        await connection.send(data)
    if (
        fault is not None
        and fault.after >= len(events)
        and await _fault_between(connection, fault, b"", framing, len(events))
    ):
        return
    await connection.send(tail)
    await connection.finish()


async def _fault_at_start(connection: Connection, fault: Fault, headers: Mapping[str, str], body: bytes) -> bool:
    """Faults that replace the status line or the headers. True if the reply is over."""
    match fault.kind:
        case "hang_up":
            await connection.close()
        case "not_http":
            await connection.write_raw(b"SSH-2.0-OpenSSH_9.6\r\n")
            await connection.close()
        case "redirect":
            await connection.respond(307, {"Location": fault.location, "Content-Length": "0"}, b"")
        case "gzip_broken":
            await connection.respond(200, {**headers, "Content-Encoding": "gzip"}, body)
        case "content_length_lie":
            await connection.start(200, {**headers, "Content-Length": str(len(body) + 1000)})
            await connection.send(body)
            await connection.close()
        case _:
            return False
    return True


async def _fault_between(connection: Connection, fault: Fault, upcoming: bytes, framing: Framing, sent: int) -> bool:
    """Faults between two events (`upcoming` is the next one). True if the reply is over."""
    match fault.kind:
        case "reset":
            await connection.reset()
        case "cut":
            await connection.close()
        case "half_event":
            await connection.send(upcoming[: len(upcoming) // 2])
            await connection.finish()
        case "silence":
            await asyncio.sleep(fault.seconds or float("inf"))
            await connection.close()
        case "chunk_lie":
            await connection.write_raw(b"%x\r\n%b" % (len(upcoming) + 1000, upcoming))
            await connection.close()
        case "error_event" | "bare_error_tail":
            error = READY_MADE[fault.error]("", 30.0).body()
            as_event = framing.encode(error, sent) + framing.tail(sent + 1)
            await connection.send(as_event if fault.kind == "error_event" else pretty(error))
            await connection.finish()
        case "garbage":
            await connection.send(fault.text.encode("latin-1", "replace") or BROKEN_EVENT)
            return False
        case "huge_event":
            part = {"text": "x" * fault.size}
            event = {"candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}]}
            await connection.send(framing.encode(event, sent))
            return False
        case "drip":
            connection.byte_delay = fault.seconds
            return False
        case _:
            return False
    return True
