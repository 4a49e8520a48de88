"""The gateway against its budgets: added latency, throughput, many slow streams, memory. Run: python -m bench.gateway

The gateway runs in a process of its own, bound to one core; the load and the service share the others. Latency and
throughput are those of the least disturbed of five rounds. `python -m bench` runs this too; `--write` here replaces the
gateway's section of RESULTS.md alone.
"""

import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.report import with_gateway
from gemcode.gateway.anthropic import AnthropicDialect
from gemcode.gateway.upstream import encode
from gemcode.gemini import wire

MODEL = "gemini-3.8-flash"
ROUNDS = 5
TOKEN = "gc_bench_token_0123456789"
ROOT = Path(__file__).resolve().parent.parent
GATEWAY = """
import sys
from gemcode.gateway.config import GatewayConfig
from gemcode.gateway.server import serve
from gemcode.gemini.settings import GeminiSettings
serve(GatewayConfig(GeminiSettings("bench-key-0123456789", sys.argv[2]), sys.argv[3], port=int(sys.argv[1])),
      lambda line: None, lambda line: print(line, file=sys.stderr))
"""
SIMULATOR = """
import asyncio, sys
from gemcode.simulator.reply import Reply
from gemcode.simulator.server import Simulator
class Brain:
    def answer(self, request):
        simulator.requests.clear()
        return Reply.says(*(f"word number {index} " for index in range(20)))
simulator = Simulator(Brain(), port=int(sys.argv[1]))
async def main():
    async with simulator:
        await asyncio.Event().wait()
asyncio.run(main())
"""


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    value: float
    unit: str
    limit: float
    at_least: bool = False

    @property
    def ok(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit


# ---- the request: 80 KB, 24 tools, as a coding assistant sends it


def tool(index: int) -> dict[str, Any]:
    properties = {
        "path": {"type": "string", "description": "The absolute path to the file."},
        "edits": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"old": {"type": "string"}, "new": {"type": "string"}},
                "required": ["old", "new"],
                "additionalProperties": False,
            },
        },
        "mode": {"type": "string", "enum": ["content", "files_with_matches", "count"]},
        "limit": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9007199254740991},
        "answer": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    }
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": properties,
        "required": ["path"],
        "additionalProperties": False,
    }
    return {"name": f"tool_{index}", "description": f"Does the thing {index}. " * 80, "input_schema": schema}


def request_body() -> dict[str, Any]:
    return {
        "model": MODEL,
        "max_tokens": 32000,
        "stream": True,
        "system": [
            {"type": "text", "text": "You are a careful assistant. " * 600, "cache_control": {"type": "ephemeral"}}
        ],
        "tools": [tool(index) for index in range(24)],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Look at this code, please. " * 300}]}],
    }


# ---- a client that costs little


class Connection:
    def __init__(self, port: int, path: str, body: bytes) -> None:
        head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
        head += f"x-goog-api-key: {TOKEN}\r\ncontent-length: {len(body)}\r\n\r\n"
        self._data = head.encode() + body
        self._port = port

    async def open(self) -> "Connection":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        raw = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self

    async def ask(self) -> tuple[float, float]:
        """Seconds to the first bytes of the body, and to the end of the answer."""
        began = time.perf_counter()
        self._writer.write(self._data)
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        received, first = b"", 0.0
        while not received.endswith(b"0\r\n\r\n"):
            data = await self._reader.read(1 << 16)
            assert data, "the answer broke off"
            first = first or time.perf_counter() - began
            received = received[-8:] + data
        return first, time.perf_counter() - began

    def close(self) -> None:
        self._writer.close()


@contextmanager
def process(code: list[str], port: int, core: int | None) -> Iterator[subprocess.Popen[bytes]]:
    def bind() -> None:
        if core is not None:
            os.sched_setaffinity(0, {core})

    running = subprocess.Popen([sys.executable, *code], cwd=ROOT, preexec_fn=bind if core is not None else None)
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert running.poll() is None and time.monotonic() < deadline, "a server did not start"
                time.sleep(0.02)
        yield running
    finally:
        running.terminate()
        running.wait(20)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def percentile(values: list[float], share: float) -> float:
    return statistics.quantiles(values, n=1000, method="inclusive")[round(share * 1000) - 1]


# ---- the measurements


async def alternate(first: Connection, second: Connection, count: int) -> tuple[list[float], list[float]]:
    """Both ways in turn, so that noise of the machine meets both."""
    await first.open()
    await second.open()
    times: tuple[list[float], list[float]] = ([], [])
    for index in range(count + 30):
        for way, connection in enumerate((first, second)):
            _, total = await connection.ask()
            if index >= 30:
                times[way].append(total * 1000)
    first.close()
    second.close()
    return times


def added_latency(count: int) -> list[Row]:
    """The least disturbed of several rounds: other work on the machine only ever adds."""
    body = request_body()
    translated = wire.dump_body(encode(AnthropicDialect().decode(body, lambda name: name), 0))
    data = json.dumps(body).encode()
    up, port = free_port(), free_port()
    rounds: list[list[float]] = []  # p50 and p99, straight and through the gateway
    with (
        process(["-c", SIMULATOR, str(up)], up, 1),
        process(["-c", GATEWAY, str(port), f"http://127.0.0.1:{up}", TOKEN], port, 0),
    ):
        for _ in range(ROUNDS):
            through = Connection(port, "/v1/messages", data)
            direct = Connection(up, f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse", translated)
            straight, gateway = asyncio.run(alternate(direct, through, count))
            rounds.append([percentile(times, share) for times in (straight, gateway) for share in (0.5, 0.99)])
    straight_half, straight_tail, half, tail = map(min, zip(*rounds, strict=True))
    half, tail = half - straight_half, tail - straight_tail
    return [Row("added latency, p50", half, "ms", 2.0), Row("added latency, p99", tail, "ms", 10.0)]


async def load(port: int, body: bytes, connections: int, count: int) -> float:
    """Requests per second with so many connections at once."""
    clients = [await Connection(port, "/v1/messages", body).open() for _ in range(connections)]

    async def work(client: Connection) -> None:
        for _ in range(count // connections):
            await client.ask()

    began = time.perf_counter()
    await asyncio.gather(*(work(client) for client in clients))
    seconds = time.perf_counter() - began
    for client in clients:
        client.close()
    return count / seconds


def memory(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def throughput(count: int) -> list[Row]:
    body = json.dumps(request_body()).encode()
    up, port = free_port(), free_port()
    with (
        process(["-m", "bench.gateway_upstream", str(up), "0"], up, 1),
        process(["-c", GATEWAY, str(port), f"http://127.0.0.1:{up}", TOKEN], port, 0) as gateway,
    ):
        asyncio.run(load(port, body, 8, 400))
        rate = max(asyncio.run(load(port, body, 8, 1000)) for _ in range(ROUNDS))
        asyncio.run(load(port, body, 8, count // 4))
        early = memory(gateway.pid)
        asyncio.run(load(port, body, 8, count))
        late = memory(gateway.pid)
    return [
        Row("throughput, one core", rate, "requests/s", 400, at_least=True),
        Row(f"memory after {count} requests", late, "MB", 150),
        Row(f"growth over {count} requests", late - early, "MB", 5),
    ]


def slow_streams(streams: int, delay: float) -> list[Row]:
    body = json.dumps(request_body()).encode()
    up, port = free_port(), free_port()

    async def all_at_once() -> list[tuple[float, float]]:
        clients = await asyncio.gather(*(Connection(port, "/v1/messages", body).open() for _ in range(streams)))
        return await asyncio.gather(*(client.ask() for client in clients))

    with (
        process(["-m", "bench.gateway_upstream", str(up), str(delay)], up, 1),
        process(["-c", GATEWAY, str(port), f"http://127.0.0.1:{up}", TOKEN], port, 0) as gateway,
    ):
        took = asyncio.run(all_at_once())
        held = memory(gateway.pid)
    slowest = max(total for _, total in took) - delay * 20
    return [
        Row(f"{streams} slow streams at once: the slowest is late by", slowest, "s", 3.0),
        Row(f"memory with {streams} streams", held, "MB", 150),
    ]


def measure(quick: bool = False) -> list[Row]:
    return [
        *added_latency(100 if quick else 400),
        *throughput(800 if quick else 10_000),
        *slow_streams(200, 0.1),
    ]


def table(rows: list[Row]) -> str:
    lines = ["| what | measured | budget | |", "|---|---|---|---|"]
    for row in rows:
        sign = "≥" if row.at_least else "≤"
        lines.append(
            f"| {row.name} | {row.value:.2f} {row.unit} | {sign} {row.limit:g} | {'ok' if row.ok else 'MISSED'} |"
        )
    return "\n".join(lines)


def main() -> int:
    rows = measure("--quick" in sys.argv)
    print(table(rows))
    if "--write" in sys.argv:
        results = ROOT / "bench" / "RESULTS.md"
        results.write_text(with_gateway(results.read_text(encoding="utf-8"), table(rows)), encoding="utf-8")
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
