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
    "carriage returns only": head() + sse(end="\r"),
    "carriage returns only, byte by byte": slowly(head() + sse(end="\r")),
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
    "several interim responses": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" * 9 + GOOD,
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


def test_a_bomb_in_an_error_is_not_unpacked_without_end(place: Place) -> None:
    packed = gzip.compress(b'{"error": {"message": "' + b" " * (200 << 20) + b'"}}', compresslevel=9)
    with wire(head("400 Bad Request", Content_Encoding="gzip") + packed) as server:
        result = ask(place, server.url, "--timeout", "60")
    assert (result.code, result.stdout) == (1, "")
    assert result.stderr.count("✗") == 1


@pytest.mark.parametrize("charset", ["iso-8859-1", "utf-16", "nonsense", "utf-8"])
def test_text_is_what_the_bytes_say_whatever_the_header_says(place: Place, charset: str) -> None:
    answer = "Grüße, 世界 👋 \u2028."
    body = f"data: {json.dumps(event(answer, 'STOP'), ensure_ascii=False)}\n\n".encode()
    with wire(head(kind=f"text/event-stream; charset={charset}") + body) as server:
        result = ask(place, server.url, "-o", "json")
    assert (result.code, result.json["answer"]) == (0, answer)


@pytest.mark.parametrize("form", ["date", "seconds"])
def test_the_wait_that_a_header_asks_for_is_told_and_kept(place: Place, form: str) -> None:
    wait = "Wed, 18 Nov 2026 12:00:02 GMT" if form == "date" else "2"
    busy = head("503 Service Unavailable", Retry_After=wait, Date="Wed, 18 Nov 2026 12:00:00 GMT") + b"busy"
    with wire(busy, GOOD) as server:
        result = ask(place, server.url, "-o", "stream-json")
    assert [each["delay"] for each in result.events if each["type"] == "retry"] == [2.0]
    assert (result.code, result.events[-1]["answer"], len(server.requests)) == (0, ANSWER, 2)


def test_a_wait_of_hours_in_a_header_is_not_slept_on(place: Place) -> None:
    with wire(head("429 Too Many Requests", Retry_After="7200") + b"{}") as server:
        result = ask(place, server.url)
    assert (result.code, result.stdout, len(server.requests)) == (6, "", 1)
    assert "7200 s" in result.stderr


def test_an_answer_that_drips_without_end_is_ended_by_the_time_limit(place: Place) -> None:
    def drip(connection: socket.socket) -> None:
        connection.sendall(head() + sse(EVENTS[:1]))
        while not ended.wait(0.05):
            connection.sendall(b":")

    ended = threading.Event()
    with wire(drip) as server:
        result = ask(place, server.url, "--timeout", "2")
        ended.set()
    assert (result.code, result.stdout, len(server.requests)) == (4, "", 1)
    assert "✗ Stopped after 2 s.\n  " in result.stderr


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


AUTHORITY = """\
[ca]
default_ca = own
[own]
new_certs_dir = {directory}
database = {directory}/index
rand_serial = yes
default_md = sha256
policy = any
[any]
commonName = supplied
"""


def dated(directory: Path, begin: str, end: str) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 that holds from one date to another (YYYYMMDD), and its key."""
    public, private, request, names = (directory / name for name in ("public.pem", "private.pem", "request", "names"))
    (directory / "index").touch()
    (directory / "authority").write_text(AUTHORITY.format(directory=directory))
    names.write_text("subjectAltName = IP:127.0.0.1\nbasicConstraints = critical, CA:TRUE\n")
    asks = ["req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", private, "-out", request, "-subj", "/CN=test"]
    signs = ["ca", "-batch", "-notext", "-selfsign", "-config", directory / "authority", "-keyfile", private]
    dates = ["-startdate", f"{begin}000000Z", "-enddate", f"{end}000000Z"]
    try:
        for command in (asks, [*signs, "-in", request, "-out", public, "-extfile", names, *dates]):
            subprocess.run(["openssl", *map(str, command)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("openssl can't make certificates here")
    return public, private


CERTIFICATES: dict[str, tuple[Callable[[Path], tuple[Path, Path]], bool, str]] = {
    "nobody vouches for it": (lambda base: certificate(base, "IP:127.0.0.1"), False, "is not trusted"),
    "for another host": (lambda base: certificate(base, "DNS:example.com"), True, "is for another name"),
    "for another address": (lambda base: certificate(base, "IP:127.0.0.2"), True, "is for another name"),
    "expired": (lambda base: dated(base, "20200101", "20200201"), True, "has expired"),
    "not yet valid": (lambda base: dated(base, "20900101", "20900201"), True, "is not valid yet"),
}


@pytest.mark.parametrize(("make", "trusted", "told"), CERTIFICATES.values(), ids=CERTIFICATES)
def test_a_certificate_that_does_not_hold_gets_no_key(
    place: Place, make: Callable[[Path], tuple[Path, Path]], trusted: bool, told: str
) -> None:
    public, private = make(place.base)
    with wire(GOOD, context=server_context(public, private)) as server:
        result = ask(place, server.url, **({"SSL_CERT_FILE": str(public)} if trusted else {}))
    assert (result.code, result.stdout) == (1, "")
    assert f"✗ Cannot reach the API: the server's certificate {told}.\n  " in result.stderr
    assert not any(KEY.encode() in request for request in server.requests)


def server_context(public: Path, private: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, private)
    return context


def test_a_server_that_speaks_no_tls_is_said(place: Place) -> None:
    def answer_plainly() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(head("400 Bad Request"))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer_plainly, daemon=True).start()
        result = ask(place, f"https://127.0.0.1:{listener.getsockname()[1]}")
        listener.shutdown(socket.SHUT_RDWR)
    assert (result.code, result.stdout) == (1, "")
    assert "✗ Cannot reach the API: no secure connection could be made.\n  " in result.stderr


def test_a_redirect_to_an_address_without_encryption_is_not_followed(place: Place) -> None:
    public, private = certificate(place.base, "IP:127.0.0.1")
    with wire(GOOD) as plain:
        moved = head("307 Temporary Redirect", Location=f"{plain.url}/v1/models/x:streamGenerateContent")
        with wire(moved, context=server_context(public, private)) as server:
            result = ask(place, server.url, SSL_CERT_FILE=str(public))
    assert (result.code, result.stdout, plain.requests) == (1, "", [])
    assert "✗ The server sent a redirect, which is not followed.\n  " in result.stderr


@pytest.mark.parametrize("content", [None, "junk", ""], ids=["missing", "junk", "empty"])
def test_trusted_certificates_that_can_not_be_read_are_said(place: Place, content: str | None) -> None:
    path = place.base / "trusted.pem"
    if content is not None:
        path.write_text(content)
    result = ask(place, "https://gemcode.invalid", SSL_CERT_FILE=str(path))
    assert (result.code, result.stdout) == (2, "")
    assert "✗ The trusted certificates can't be read.\n  Check SSL_CERT_FILE" in result.stderr


def test_a_certificate_that_the_user_trusts_is_fine(place: Place) -> None:
    public, private = certificate(place.base, "IP:127.0.0.1")
    with wire(GOOD, context=server_context(public, private)) as server:
        result = ask(place, server.url, SSL_CERT_FILE=str(public))
    assert (result.code, result.stdout) == (0, ANSWER + "\n"), result.stderr


@pytest.mark.parametrize(
    "answer", [head("407 Proxy Authentication Required"), head("502 Bad Gateway")], ids=["407", "502"]
)
def test_a_proxy_that_refuses_to_connect_is_said(place: Place, answer: bytes) -> None:
    with wire(answer) as proxy:
        result = ask(place, "https://gemcode.invalid", "--timeout", "40", HTTPS_PROXY=with_password(proxy.url))
    assert (result.code, result.stdout) == (1, "")
    assert "✗ The proxy refused the connection.\n  Check HTTPS_PROXY." in result.stderr
    assert "pass-word" not in result.stderr
    assert proxy.requests[0].startswith(b"CONNECT gemcode.invalid:443")
    assert not any(KEY.encode() in request for request in proxy.requests)


def test_a_proxy_that_is_not_there_is_said(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    proxy = with_password(f"http://127.0.0.1:{port}")
    result = ask(place, "https://gemcode.invalid", "--timeout", "60", "-v", HTTPS_PROXY=proxy)
    assert (result.code, result.stdout) == (1, "")
    assert "✗ Cannot reach the API: the connection was refused.\n  Check the network and the proxy." in result.stderr
    assert "pass-word" not in result.stderr


def with_password(proxy: str) -> str:
    return proxy.replace("://", "://ada:pass-word@")


@pytest.mark.parametrize(
    "proxy",
    ["socks5://ada:pass-word@127.0.0.1:9", "ftp://ada:pass-word@127.0.0.1:9", "http://ada:pass-word@proxy:many"],
)
def test_a_proxy_that_can_not_be_used_is_said(place: Place, proxy: str) -> None:
    result = ask(place, "https://gemcode.invalid", "-v", HTTPS_PROXY=proxy)
    assert (result.code, result.stdout) == (2, "")
    assert "✗ The proxy of the environment can't be used.\n  HTTPS_PROXY" in result.stderr
    assert "pass-word" not in result.stderr


def test_this_machine_is_reached_without_a_proxy(place: Place) -> None:
    with wire(GOOD) as proxy, wire(GOOD) as server:
        result = ask(place, server.url, HTTP_PROXY=proxy.url, HTTPS_PROXY=proxy.url, ALL_PROXY=proxy.url)
    assert (result.code, result.stdout) == (0, ANSWER + "\n"), result.stderr
    assert (len(server.requests), proxy.requests) == (1, [])


def test_an_encrypted_address_is_reached_through_the_proxy(place: Place) -> None:
    public, private = certificate(place.base, "DNS:gemcode.invalid")
    context = server_context(public, private)

    def tunnel(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with context.wrap_socket(connection, server_side=True) as inner:
            seen.append(_read_request(inner))
            inner.sendall(GOOD)

    seen: list[bytes] = []
    with wire(tunnel) as proxy:
        result = ask(place, "https://gemcode.invalid", HTTPS_PROXY=proxy.url, SSL_CERT_FILE=str(public))
    assert (result.code, result.stdout) == (0, ANSWER + "\n"), result.stderr
    assert KEY.encode() not in proxy.requests[0] and KEY.encode() in seen[0]
