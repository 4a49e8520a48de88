"""A scripted Gemini endpoint that costs next to nothing: raw sockets, answers made beforehand, times taken.

It checks no rule of the API; the simulator does. It runs in a thread of the benchmark, which sleeps while it waits.
"""

import json
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer as bytes to send, piece by piece, `pause` seconds apart."""

    pieces: tuple[bytes, ...]
    pause: float = 0.0


@dataclass(slots=True)
class Exchange:
    """When a request was complete here, how long its body was, and when the last piece of the answer left."""

    arrived: float
    size: int
    answered: float = 0.0


@dataclass(slots=True)
class ScriptedServer:
    """Answers the n-th request with the n-th answer, and any later one with the last."""

    script: Sequence[Answer] = ()
    exchanges: list[Exchange] = field(default_factory=list)
    url: str = ""

    def start(self) -> "ScriptedServer":
        listener = socket.create_server(("127.0.0.1", 0), backlog=16)
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return self

    def play(self, script: Sequence[Answer]) -> list[Exchange]:
        """Begin a new script; the list that its exchanges will be in."""
        self.script, self.exchanges = script, []
        return self.exchanges

    def _accept(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        received = b""
        try:
            while True:
                while (end := received.find(b"\r\n\r\n")) < 0:
                    if not (data := connection.recv(1 << 20)):
                        return
                    received += data
                size = _content_length(received[:end])
                pieces, missing = [received], end + 4 + size - len(received)
                while missing > 0:
                    pieces.append(connection.recv(1 << 20))
                    missing -= len(pieces[-1])
                received = b""
                self._answer(connection, Exchange(time.perf_counter(), size))
        except OSError:
            return
        finally:
            connection.close()

    def _answer(self, connection: socket.socket, exchange: Exchange) -> None:
        answer = self.script[min(len(self.exchanges), len(self.script) - 1)]
        self.exchanges.append(exchange)
        for piece in answer.pieces:
            exchange.answered = time.perf_counter()  # before it is sent: who has read the answer finds the time there
            connection.sendall(piece)
            if answer.pause:
                time.sleep(answer.pause)


def _content_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line[15:])
    return 0


def whole(*events: dict[str, object]) -> Answer:
    """All events in one piece."""
    body = b"".join(_event(event) for event in events)
    return Answer((_HEAD + b"content-length: %d\r\n\r\n" % len(body) + body,))


def streamed(events: Sequence[dict[str, object]], pause: float = 0.0) -> Answer:
    """Each event in a chunk and a packet of its own, as the real service sends them."""
    chunks = [_event(event) for event in events]
    framed = [b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks]
    return Answer((_HEAD + b"transfer-encoding: chunked\r\n\r\n", *framed, b"0\r\n\r\n"), pause)


def _event(event: dict[str, object]) -> bytes:
    return b"data: " + json.dumps(event, separators=(",", ":")).encode() + b"\r\n\r\n"


def text_event(text: str, *, last: bool = True) -> dict[str, object]:
    return _candidate([{"text": text}], last=last)


def calls_event(calls: Sequence[tuple[str, dict[str, object]]], step: int) -> dict[str, object]:
    """A model's answer that calls tools: signed and with ids, as the service does it."""
    parts: list[dict[str, object]] = [
        {"functionCall": {"id": f"c{step}x{number}", "name": name, "args": args}}
        for number, (name, args) in enumerate(calls)
    ]
    parts[0]["thoughtSignature"] = "c2lnbmF0dXJl" * 8
    return _candidate(parts)


def _candidate(parts: list[dict[str, object]], *, last: bool = True) -> dict[str, object]:
    candidate: dict[str, object] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if last:
        candidate["finishReason"] = "STOP"
    usage = {"promptTokenCount": 1200, "candidatesTokenCount": 20, "totalTokenCount": 1220}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-3.8-flash"}
