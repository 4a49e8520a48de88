"""A stand-in for the service with next to no cost of its own: reads a request, sends a canned 20-chunk stream.

Used where the simulator itself would be the bottleneck: throughput, many slow streams, memory.
Run as a program: python -m bench.gateway_upstream PORT DELAY_BETWEEN_CHUNKS
"""

import asyncio
import json
import sys

CHUNKS = 20


def chunk(index: int) -> bytes:
    candidate: dict[str, object] = {
        "content": {"parts": [{"text": f"word number {index} "}], "role": "model"},
        "index": 0,
    }
    if index == CHUNKS - 1:
        candidate["finishReason"] = "STOP"
    usage = {"promptTokenCount": 20000, "candidatesTokenCount": index * 4, "totalTokenCount": 20000 + index * 4}
    data = json.dumps({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": "r"})
    return f"data: {data}\r\n\r\n".encode()


FRAMES = [b"%x\r\n%b\r\n" % (len(data), data) for data in (chunk(index) for index in range(CHUNKS))]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


async def serve_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            writer.write(HEAD)
            for frame in FRAMES:
                if delay:
                    await asyncio.sleep(delay)
                writer.write(frame)
                await asyncio.sleep(0)  # one write each, as a real stream has
            writer.write(b"0\r\n\r\n")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main(port: int, delay: float) -> None:
    server = await asyncio.start_server(
        lambda reader, writer: serve_client(reader, writer, delay), "127.0.0.1", port, limit=1 << 22, backlog=512
    )
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
