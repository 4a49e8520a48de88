"""The one place that imports google-genai and httpx2: raw JSON through the SDK (docs/decisions/002).

The SDK drives: address, headers, key. The body that goes out and the events that come in are ours, byte for byte.
Import this module late: it costs a quarter of a second.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import anyio
import httpx2
from google import genai
from google.genai import types

from gemcode.agent.errors import ExitCode, ModelError
from gemcode.frozen import frozen
from gemcode.gemini import failures, trust
from gemcode.gemini.settings import DEFAULT_BASE_URL, Broken, GeminiSettings, Received, Refused, Sent, Traffic
from gemcode.gemini.sse import RESPONSE_LIMIT, EventReader

_PLACEHOLDER = "."  # the SDK wants contents; the body is replaced on the way out
_HEARTBEAT = b"data: {}\r\n\r\n"


@frozen
class Exchange:
    """What one SDK call sends and receives, known to the HTTP client by context."""

    model: str
    body: bytes
    receive: Callable[[object], None]  # told each event


_current: ContextVar[Exchange] = ContextVar("exchange")


class RawClient(httpx2.AsyncClient):
    """Sends our bytes in place of the SDK's, reads the events before the SDK can drop any of it."""

    def __init__(self, settings: GeminiSettings, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        # No redirects: the key must never reach another origin. Proxies of the environment keep working.
        super().__init__(
            verify=trust.context(),
            transport=transport,
            trust_env=not trust.is_local(settings.base_url or DEFAULT_BASE_URL),
            follow_redirects=False,
            headers={"accept-encoding": "identity"},
        )
        self._timeouts = httpx2.Timeout(settings.read_timeout, connect=settings.connect_timeout).as_dict()
        self._settings = settings

    def _trace(self, line: str) -> None:
        if self._settings.trace is not None:
            self._settings.trace(self._settings.redact(line))

    def _observe(self, traffic: Traffic) -> None:
        if self._settings.observe is not None:
            self._settings.observe(traffic)

    async def send(self, request: httpx2.Request, **_options: Any) -> httpx2.Response:
        exchange = _current.get()
        headers = [(name, value) for name, value in request.headers.multi_items() if name != "content-length"]
        # The SDK asks for no timeout at all; ours replace that.
        outgoing = httpx2.Request(
            request.method, request.url, headers=headers, content=exchange.body, extensions={"timeout": self._timeouts}
        )
        self._trace(f"→ {outgoing.method} {outgoing.url} ({len(exchange.body)} bytes)")
        self._observe(Sent(exchange.model, exchange.body))
        response = await super().send(outgoing, stream=True, follow_redirects=False)
        self._trace(f"← HTTP {response.status_code} {response.headers.get('content-type', '')}")
        if response.status_code != 200:
            body = await _read_body(response)
            self._observe(Refused(response.status_code, body, dict(response.headers)))
            raise failures.from_response(response.status_code, body, exchange.model, response.headers)
        reader = EventReader(self._settings.event_bytes)
        content = _heartbeats(response, reader, self._observed(exchange.receive))
        return httpx2.Response(200, content=content, request=outgoing)

    def _observed(self, receive: Callable[[object], None]) -> Callable[[object], None]:
        """The receiver, with the observer told first."""

        def receive_observed(event: object) -> None:
            self._observe(Received(event))
            receive(event)

        return receive_observed if self._settings.observe is not None else receive


async def _heartbeats(
    response: httpx2.Response, reader: EventReader, receive: Callable[[object], None]
) -> AsyncIterator[bytes]:
    """One empty event for the SDK per real one: it keeps time, and has nothing to validate, drop or warn about."""
    try:
        async for data in response.aiter_bytes():
            for event in reader.feed(data):
                receive(event)
                yield _HEARTBEAT
        for event in reader.close():
            receive(event)
    finally:
        await response.aclose()


async def _read_body(response: httpx2.Response) -> bytes:
    body = bytearray()
    try:
        async for data in response.aiter_bytes():
            body += data
            if len(body) > RESPONSE_LIMIT:
                raise failures.broken_stream("The answer is larger than 32 MiB.")
    finally:
        await response.aclose()
    return bytes(body)


class Session:
    """The SDK's client, bound to the event loop that made it."""

    def __init__(self, settings: GeminiSettings, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        logging.getLogger("google_genai").addHandler(logging.NullHandler())  # else its warnings land on stderr
        self.loop = asyncio.get_running_loop()
        base_url = settings.base_url or DEFAULT_BASE_URL
        with _network_failures():
            httpx2.URL(base_url)  # the SDK would fail on it in its own way
        self._settings = settings
        with trust.usable_proxies():
            self._http = RawClient(settings, transport)
        self._client = genai.Client(
            api_key=settings.api_key,
            vertexai=False,  # whatever the environment says
            http_options=types.HttpOptions(
                base_url=base_url,
                api_version=settings.api_version,
                httpx_client=_no_sync_client(),
                httpx_async_client=self._http,
                async_client_args={"ssl": trust.context()},  # for web sockets, which are not used: else it reads anew
            ),
        )

    async def stream(self, model: str, body: bytes, receive: Callable[[object], None]) -> None:
        """Run one streamed request to its end. Cancelling this closes the connection at once."""
        _current.set(Exchange(model, body, receive))
        config = types.GenerateContentConfig(
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            automatic_continuation=False,
        )
        try:
            with _network_failures():
                events = await self._client.aio.models.generate_content_stream(
                    model=model, contents=_PLACEHOLDER, config=config
                )
                async for _ in events:
                    pass
        except (ModelError, asyncio.CancelledError) as error:
            if self._settings.observe is not None:
                self._settings.observe(Broken(f"{type(error).__name__}: {error}"))
            raise

    async def aclose(self) -> None:
        await self._http.aclose()


def rehearse() -> None:
    """One request to nowhere: at its first one the SDK builds validators and loads more, which takes 50 ms."""
    anyio.run(_rehearse)


async def _rehearse() -> None:
    nowhere = httpx2.MockTransport(lambda _: httpx2.Response(200, content=_HEARTBEAT))
    session = Session(GeminiSettings("rehearsal"), nowhere)
    await session.stream("rehearsal", b"{}", lambda _: None)
    await session.aclose()


def _no_sync_client() -> httpx2.Client:
    """Spares the SDK a second TLS context for the sync side, which is never used."""
    return httpx2.Client(transport=httpx2.MockTransport(lambda request: httpx2.Response(501)))


@contextmanager
def _network_failures() -> Iterator[None]:
    """Whatever the HTTP client raises becomes a ModelError, once."""
    try:
        yield
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
        hint = "Check GOOGLE_GEMINI_BASE_URL: it must be an https address."
        raise ModelError(
            "The API's address is not valid.", hint, exit_code=ExitCode.USAGE, detail=_detail(error)
        ) from None
    except (httpx2.HTTPError, OSError) as error:
        sentence, hint, retryable = _transport_text(error)
        raise ModelError(sentence, hint, retryable=retryable, detail=_detail(error)) from None


def _detail(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


_NOT_TRUSTED = "is not trusted", "A proxy that inspects traffic needs its certificate in SSL_CERT_FILE."
_OTHER_NAME = "is for another name", "Check GOOGLE_GEMINI_BASE_URL and the proxy."
_CERTIFICATE_FAULTS = {  # by OpenSSL's number
    9: ("is not valid yet", "Is this machine's clock right?"),
    10: ("has expired", "Is this machine's clock right?"),
    62: _OTHER_NAME,
    64: _OTHER_NAME,  # another address
}


def _transport_text(error: httpx2.HTTPError | OSError) -> tuple[str, str, bool]:
    """Sentence, hint, and whether another try may help."""
    causes = list(_causes(error))
    network = "Check the network and the proxy."
    if doubted := next((cause for cause in causes if isinstance(cause, ssl.SSLCertVerificationError)), None):
        why, hint = _CERTIFICATE_FAULTS.get(doubted.verify_code, _NOT_TRUSTED)
        return f"Cannot reach the API: the server's certificate {why}.", hint, False
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return "Cannot reach the API: no secure connection could be made.", network, True
    if any(isinstance(cause, OSError) and cause.errno in (errno.EMFILE, errno.ENFILE) for cause in causes):
        return "Cannot reach the API: too many files are open.", "Raise the limit (ulimit -n), or close some.", False
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return "Cannot reach the API: name not resolved. Are you offline?", network, True
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return "Cannot reach the API: the connection was refused.", network, True
    match error:
        case httpx2.ConnectTimeout():
            return "Cannot reach the API: no connection in time.", network, True
        case httpx2.TimeoutException():
            return "The API fell silent for too long.", "Try again; a shorter request may help.", True
        case httpx2.ProxyError():
            return "The proxy refused the connection.", "Check HTTPS_PROXY.", False
        case httpx2.ConnectError():
            return "Cannot reach the API: the connection failed.", network, True
        case httpx2.DecodingError():
            return "The answer was damaged on the way.", network, True
        case _:
            return "The connection to the API broke off.", network, True


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
