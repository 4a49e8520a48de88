"""Broken transports, byte by byte: each fault does exactly what its name says, and the next request works again."""

import gzip
import json
import socket
from typing import Any

import httpx2
import pytest

from gemcode.simulator.playback import BROKEN_EVENT
from gemcode.simulator.server import Simulator, running_simulator

MODEL = "gemini-3.8-flash"
HELLO = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
WAIT = 10.0


def broken(kind: str, after: int = 0, **fields: Any) -> dict[str, Any]:
    fault = {"kind": kind, "after": after, **fields}
    return {"schema": 1, "replies": [{"text": ["one", "two"], "fault": fault}, {"text": "fine"}]}


def connect(simulator: Simulator, method: str = "streamGenerateContent?alt=sse") -> socket.socket:
    raw = socket.create_connection(("127.0.0.1", int(simulator.url.rpartition(":")[2])), timeout=WAIT)
    data = json.dumps(HELLO).encode()
    head = f"POST /v1/models/{MODEL}:{method} HTTP/1.1\r\nHost: x\r\nx-goog-api-key: k\r\nContent-Length: {len(data)}"
    raw.sendall(head.encode() + b"\r\n\r\n" + data)
    return raw


def receive(raw: socket.socket, until: bytes = b"\r\n0\r\n\r\n") -> bytes:
    """Everything up to `until`, or up to the end of the connection."""
    received = b""
    while until not in received and (data := raw.recv(65536)):
        received += data
    return received


def play(kind: str, after: int = 0, method: str = "streamGenerateContent?alt=sse", **fields: Any) -> bytes:
    """The bytes of a broken reply; checks that the simulator is well afterwards."""
    with running_simulator(broken(kind, after, **fields)) as simulator:
        with connect(simulator, method) as raw:
            received = receive(raw)
        url = f"{simulator.url}/v1/models/{MODEL}:generateContent?key=k"
        again = httpx2.post(url, json=HELLO, trust_env=False, timeout=WAIT)
        assert again.json()["candidates"][0]["content"]["parts"][0]["text"] == "fine"
        assert simulator.violations == []
    return received


def test_hang_up_says_nothing_at_all() -> None:
    assert play("hang_up") == b""


def test_not_http_speaks_another_protocol() -> None:
    assert play("not_http") == b"SSH-2.0-OpenSSH_9.6\r\n"


@pytest.mark.parametrize("after", [0, 1, 2, 3, 9])
def test_cut_stops_after_that_many_events_without_the_last_chunk(after: int) -> None:
    received = play("cut", after)
    assert received.startswith(b"HTTP/1.1 200")
    assert received.count(b"data: ") == min(after, 3)
    assert not received.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("after", [0, 2])
def test_reset_is_a_tcp_reset_after_that_many_events(after: int) -> None:
    with running_simulator(broken("reset", after)) as simulator, connect(simulator) as raw:
        received = b""
        with pytest.raises(ConnectionResetError):
            while True:
                data = raw.recv(65536)
                assert data, "a clean end instead of a reset"
                received += data
    assert received.count(b"data: ") == after


def test_half_an_event_ends_the_body_properly() -> None:
    received = play("half_event", 1)
    assert received.endswith(b"\r\n0\r\n\r\n")
    assert received.count(b"data: ") == 2
    last = received.rpartition(b"data: ")[2]
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        json.loads(last.partition(b"\r\n")[0])


def test_garbage_comes_between_two_good_events() -> None:
    received = play("garbage", 1)
    assert BROKEN_EVENT in received
    assert received.count(b"data: ") == 4
    assert b"\xff\xfe not text" in play("garbage", 1, text="\xff\xfe not text")


def test_silence_lasts_until_the_client_leaves() -> None:
    with running_simulator(broken("silence", 1)) as simulator:
        with connect(simulator) as raw:
            receive(raw, b"data: ")
            raw.settimeout(0.3)
            with pytest.raises(TimeoutError):
                while raw.recv(65536):
                    pass
        assert simulator.requests[0].disconnected.wait(WAIT)


def test_a_limited_silence_ends_in_a_cut() -> None:
    assert not play("silence", 1, seconds=0.05).endswith(b"0\r\n\r\n")


def test_drip_delivers_everything_in_single_bytes() -> None:
    received = play("drip", 1)
    assert received.endswith(b"\r\n0\r\n\r\n")
    assert received.count(b"data: ") == 3


def test_an_error_event_is_one_event_that_holds_an_error() -> None:
    received = play("error_event", 1, error="internal")
    last = received.rpartition(b"data: ")[2].partition(b"\r\n")[0]
    assert json.loads(last)["error"]["status"] == "INTERNAL"
    assert received.count(b"data: ") == 2


def test_an_error_event_in_an_array_keeps_the_array_whole() -> None:
    received = play("error_event", 1, method="streamGenerateContent")
    assert b",\r\n{\n" in received
    assert received.endswith(b"]\n\r\n0\r\n\r\n")


def test_a_bare_error_tail_is_no_event() -> None:
    received = play("bare_error_tail", 2, error="cancelled")
    assert received.count(b"data: ") == 2
    assert b'{\n  "error": {\n    "code": 499,' in received


def test_a_chunk_announces_more_than_it_brings() -> None:
    received = play("chunk_lie", 1)
    size = int(received.rpartition(b"data: ")[0].rpartition(b"\r\n")[0].rpartition(b"\r\n")[2], 16)
    assert size == len(received.rpartition(b"data: ")[2]) + len(b"data: ") + 1000


@pytest.mark.parametrize("method", ["streamGenerateContent?alt=sse", "generateContent"])
def test_the_content_length_is_larger_than_the_body(method: str) -> None:
    head, _, body = play("content_length_lie", method=method).partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body) + 1000}".encode() in head


def test_broken_gzip_is_announced_and_is_none() -> None:
    head, _, body = play("gzip_broken").partition(b"\r\n\r\n")
    assert b"Content-Encoding: gzip" in head
    with pytest.raises(gzip.BadGzipFile):
        gzip.decompress(body.partition(b"\r\n")[2])


def test_a_redirect_names_the_other_place() -> None:
    received = receive_redirect("http://127.0.0.1:9/else")
    assert received.startswith(b"HTTP/1.1 307")
    assert b"Location: http://127.0.0.1:9/else" in received


def receive_redirect(location: str) -> bytes:
    with running_simulator(broken("redirect", location=location)) as simulator, connect(simulator) as raw:
        return receive(raw, b"\r\n\r\n")


def test_a_huge_event_has_the_size_that_was_asked_for() -> None:
    received = play("huge_event", 1, size=3_000_000)
    assert received.count(b"x" * 3_000_000) == 1
    assert received.endswith(b"\r\n0\r\n\r\n")


def test_a_unary_body_counts_as_one_event() -> None:
    assert play("cut", method="generateContent").endswith(b"\r\n\r\n")
    whole = play("cut", 1, method="generateContent")
    assert b'"finishReason": "STOP"' in whole
    assert not whole.endswith(b"0\r\n\r\n")
    assert play("half_event", method="generateContent").endswith(b"\r\n0\r\n\r\n")
