"""Bytes that no HTTP library would send, proxies, certificates and other origins: against a plain socket."""

import gzip
import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import KEY, Place, Result

ANSWER = "All good."


def event(text: str, finish: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": [{"text": text}], "role": "model"}, "index": 0}
    return {"candidates": [candidate | ({"finishReason": finish} if finish else {})]}


EVENTS = [event("All "), event("good."), event("", "STOP")]


def sse(events: Sequence[Any] = EVENTS, end: str = "\r\n") -> bytes:
    return "".join(f"data: {json.dumps(item)}{end}{end}" for item in events).encode()


def head(status: str = "200 OK", kind: str = "text/event-stream", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def chunked(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


GOOD = head() + sse()


class Wire:
    """Answers each connection with the next script: bytes, or a function that is given the socket."""

    def __init__(
        self, *answers: bytes | Callable[[socket.socket], None], context: ssl.SSLContext | None = None
    ) -> None:
        self._answers = list(answers)
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http{'s' if context else ''}://127.0.0.1:{self.port}"
        self.requests: list[bytes] = []

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with suppress(OSError), connection:
                    self._converse(connection)

    def _converse(self, connection: socket.socket) -> None:
        connection.settimeout(30)
        if self._context is not None:
            connection = self._context.wrap_socket(connection, server_side=True)
        self.requests.append(_read_request(connection))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if callable(answer):
            answer(connection)
        else:
            connection.sendall(answer)
        connection.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def _read_request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65_536)
        if not piece:
            return data
        data += piece
    headers, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in headers.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    while len(body) < length:
        body += connection.recv(65_536)
    return headers + b"\r\n\r\n" + body


@contextmanager
def wire(*answers: bytes | Callable[[socket.socket], None], context: ssl.SSLContext | None = None) -> Iterator[Wire]:
    server = Wire(*answers, context=context)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join(5)


def ask(place: Place, url: str, *flags: str, **env: str) -> Result:
    return place.ask("hi", *flags, env={"GOOGLE_GEMINI_BASE_URL": url, **env})


def slowly(data: bytes, size: int = 1) -> Callable[[socket.socket], None]:
    def send(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces(data, size):
            connection.sendall(piece)

    return send


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


MULTI_LINE = 'data: {"candidates": [{"content":\ndata: {"parts": [{"text": "All good."}], "role": "model"},\n' \
    'data: "finishReason": "STOP"}]}\n\n'  # fmt: skip

FORMS = {
    "line feeds only": head() + sse(end="\n"),
    "chunks that split events": head(Transfer_Encoding="chunked") + chunked(*pieces(sse(), 7)),
    "one byte at a time": slowly(GOOD),
    "comments and other fields": head() + b": hello\r\nevent: message\r\nid: 7\r\nretry: 10\r\n" + sse() + b": bye\r\n",
    "a byte order mark": head() + b"\xef\xbb\xbf" + sse(),
    "no space behind the colon": head() + sse().replace(b"data: ", b"data:"),
    "empty data": head() + b"data: \r\n\r\ndata:\r\n\r\n" + sse(),
    "the end mark of another API": head() + sse() + b"data: [DONE]\r\n\r\n",
    "an event over several lines": head() + MULTI_LINE.encode(),
    "no blank line at the end": head() + sse().rstrip(b"\r\n"),
    "one JSON array": head(kind="application/json") + json.dumps(EVENTS).encode(),
    "one JSON object": head(kind="application/json") + json.dumps(event(ANSWER, "STOP"), indent=2).encode(),
    "another content type": head(kind="text/plain") + sse(),
    "another charset": head(kind="text/event-stream; charset=iso-8859-1") + sse(),
    "no content type": b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + sse(),
    "an interim response first": b"HTTP/1.1 100 Continue\r\n\r\n" + GOOD,
    "the old protocol version": GOOD.replace(b"HTTP/1.1", b"HTTP/1.0"),
    "gzip that was not asked for": head(Content_Encoding="gzip") + gzip.compress(sse()),
    "an event of another kind between": head() + sse([EVENTS[0], {"modelStatus": {}}, *EVENTS[1:]]),
}  # fmt: skip


@pytest.mark.parametrize("answer", FORMS.values(), ids=FORMS)
def test_each_form_of_an_answer_is_understood(place: Place, answer: Any) -> None:
    with wire(answer) as server:
        result = ask(place, server.url)
    assert (result.code, result.stdout) == (0, ANSWER + "\n"), result.stderr
    assert len(server.requests) == 1


CUTS = {
    "before the status line": b"",
    "within the status line": b"HTTP/1.1 20",
    "within the headers": GOOD[:40],
    "within an event": GOOD[: len(head()) + 30],
    "after the first event": head(Transfer_Encoding="chunked") + chunked(sse(EVENTS[:1]))[:-5],
    "after the finish, without the last chunk": head(Transfer_Encoding="chunked") + chunked(sse())[:-5],
    "a body longer than announced": head(Content_Length="10") + sse(),
    "a body shorter than announced": head(Content_Length="9999") + sse(),
    "a chunk size that is no number": head(Transfer_Encoding="chunked") + b"zz\r\n" + sse(),
    "headers without end": b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 50_000,
    "a reset": reset,
    "an invalid letter": head() + b'data: {"candidates": [{"content": {"parts": [{"text": "\xff\xfe"}]}}]\r\n\r\n',
}  # fmt: skip


@pytest.mark.parametrize("answer", CUTS.values(), ids=CUTS)
def test_an_answer_that_breaks_is_asked_for_again(place: Place, answer: Any) -> None:
    with wire(answer, GOOD) as server:
        result = ask(place, server.url)
    assert (result.code, result.stdout) == (0, ANSWER + "\n"), result.stderr
    assert len(server.requests) == 2


def test_a_bomb_is_not_unpacked_without_end(place: Place) -> None:
    packed = gzip.compress(b"data: " + b" " * (200 << 20) + b"\n\n", compresslevel=9)
    with wire(head(Content_Encoding="gzip") + packed) as server:
        result = ask(place, server.url)
    assert result.code == 1
    assert result.stdout == ""


def test_a_web_page_instead_of_an_answer_is_said(place: Place) -> None:
    with wire(head(kind="text/html") + b"<!DOCTYPE html><html>Log in to the network</html>") as server:
        result = ask(place, server.url)
    assert (result.code, result.stdout) == (1, "")
    assert "web page" in result.stderr
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"])
def test_the_key_does_not_follow_a_redirect(place: Place, status: str) -> None:
    with wire(GOOD) as other, wire(head(status, Location=f"{other.url}/v1/models/x:streamGenerateContent")) as server:
        result = ask(place, server.url)
    assert (result.code, result.stdout) == (1, "")
    assert KEY.encode() in server.requests[0]
    assert other.requests == []


def test_the_key_is_in_one_header_only(place: Place) -> None:
    with wire(GOOD) as server:
        ask(place, server.url)
    (request,) = server.requests
    assert request.count(KEY.encode()) == 1
    assert KEY.encode() not in request.split(b"\r\n", 1)[0]
    assert b"x-goog-api-key: " + KEY.encode() in request


@pytest.mark.parametrize("url", ["http://example.com", "ftp://127.0.0.1", "http://127.0.0.1.example.com", "nonsense"])
def test_an_address_without_encryption_is_not_used(place: Place, url: str) -> None:
    result = ask(place, url)
    assert (result.code, result.stdout) == (2, "")
    assert "https" in result.stderr


def test_a_server_that_is_not_there_is_said(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    result = ask(place, f"http://127.0.0.1:{port}", "--timeout", "30")
    assert (result.code, result.stdout) == (1, "")
    assert "refused" in result.stderr


def test_a_name_that_does_not_resolve_is_said(place: Place) -> None:
    result = ask(place, "https://gemcode.invalid", "--timeout", "40")
    assert (result.code, result.stdout) == (1, "")
    assert "Cannot reach the API" in result.stderr


def certificate(directory: Path, name: str, *options: str) -> tuple[Path, Path]:
    """A self-signed certificate for a name, and its key."""
    public, private = directory / "public.pem", directory / "private.pem"
    subject = ["-subj", "/CN=test", "-addext", f"subjectAltName={name}"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(private), "-out", str(public)]
    try:
        subprocess.run([*command, *subject, *options], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("openssl can't make certificates here")
    return public, private


@pytest.mark.parametrize(("name", "trusted"), [("IP:127.0.0.1", False), ("DNS:example.com", True)])
def test_a_certificate_that_is_not_trusted_gets_no_key(place: Place, name: str, trusted: bool) -> None:
    public, private = certificate(place.base, name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, private)
    with wire(GOOD, context=context) as server:
        result = ask(place, server.url, **({"SSL_CERT_FILE": str(public)} if trusted else {}))
    assert (result.code, result.stdout) == (1, "")
    assert "certificate" in result.stderr
    assert not any(KEY.encode() in request for request in server.requests)


def test_a_certificate_that_the_user_trusts_is_fine(place: Place) -> None:
    public, private = certificate(place.base, "IP:127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, private)
    with wire(GOOD, context=context) as server:
        result = ask(place, server.url, SSL_CERT_FILE=str(public))
    assert (result.code, result.stdout) == (0, ANSWER + "\n"), result.stderr


@pytest.mark.parametrize(
    "answer", [head("407 Proxy Authentication Required"), head("502 Bad Gateway")], ids=["407", "502"]
)
def test_a_proxy_that_refuses_to_connect_is_said(place: Place, answer: bytes) -> None:
    with wire(answer) as proxy:
        result = ask(place, "https://gemcode.invalid", "--timeout", "40", HTTPS_PROXY=proxy.url)
    assert (result.code, result.stdout) == (1, "")
    assert proxy.requests[0].startswith(b"CONNECT gemcode.invalid:443")
    assert not any(KEY.encode() in request for request in proxy.requests)


def test_a_proxy_that_is_not_there_is_said(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    result = ask(place, "https://gemcode.invalid", "--timeout", "40", HTTPS_PROXY=f"http://127.0.0.1:{port}")
    assert (result.code, result.stdout) == (1, "")
