"""Plain requests to the service, bytes out and bytes in, for the gateway: many at once, without the SDK's cost.

Knows addresses, the key and the connection pool; not what the bytes mean.
"""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache

import httpx2

from gemcode.agent.errors import ModelError
from gemcode.frozen import frozen
from gemcode.gemini import trust
from gemcode.gemini.settings import DEFAULT_BASE_URL, GeminiSettings

ANSWER_LIMIT = 32 * 1024 * 1024
_MODEL_PATH = re.compile(r"(?:models|tunedModels)/[A-Za-z0-9][\w.-]*(?::[A-Za-z]+)?|models", re.ASCII)


_parsed = lru_cache(maxsize=256)(httpx2.URL)  # the same few addresses with every request


@frozen
class Answer:
    """Status and headers are here; the body comes as it is read."""

    status: int
    headers: Mapping[str, str]
    _response: httpx2.Response

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises ModelError when the connection breaks."""
        try:
            async for data in self._response.aiter_raw():
                yield data
        except httpx2.HTTPError as error:
            raise _broken(error) from None

    async def read(self) -> bytes:
        body = bytearray()
        async for data in self.chunks():
            body += data
            if len(body) > ANSWER_LIMIT:
                raise ModelError("The server's answer is larger than 32 MiB.")
        return bytes(body)


class RestClient:
    """One keep-alive pool. Leaving an open answer closes its connection, so the service stops generating."""

    def __init__(self, settings: GeminiSettings) -> None:
        self._base = (settings.base_url or DEFAULT_BASE_URL).rstrip("/")
        self._headers = [("x-goog-api-key", settings.api_key), ("accept-encoding", "identity"), ("accept", "*/*")]
        self._timeout = httpx2.Timeout(settings.read_timeout, connect=settings.connect_timeout, pool=None).as_dict()
        # No redirects: the key must never reach another origin. No cap: a client that waits in a queue waits unseen.
        with trust.usable_proxies():
            self._client = httpx2.AsyncClient(
                verify=trust.context(),
                trust_env=not trust.is_local(self._base),
                follow_redirects=False,
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64),
            )

    @asynccontextmanager
    async def open(
        self, method: str, version: str, path: str, body: bytes | None = None, query: str = ""
    ) -> AsyncIterator[Answer]:
        """One request, to `models` or to `models/NAME:action`. Raises ModelError."""
        if not _MODEL_PATH.fullmatch(path) or version not in ("v1", "v1beta", "v1alpha"):
            raise ModelError(f"{path[:80]!r} is not the name of a model.")
        headers = [*self._headers, ("content-type", "application/json")] if body is not None else self._headers
        try:
            url = _parsed(f"{self._base}/{version}/{path}" + (f"?{query}" if query else ""))
            extensions = {"timeout": self._timeout}
            request = httpx2.Request(method, url, headers=headers, content=body, extensions=extensions)
            response = await self._client.send(request, stream=True)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _broken(error) from None
        try:
            yield Answer(response.status_code, response.headers, response)
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        await self._client.aclose()


def _broken(error: Exception) -> ModelError:
    detail = f"{type(error).__name__}: {error}"
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
        return ModelError(
            "Cannot reach the Gemini API.", "Check the network and the proxy.", retryable=True, detail=detail
        )
    if isinstance(error, httpx2.TimeoutException):
        return ModelError("The Gemini API fell silent for too long.", retryable=True, detail=detail)
    return ModelError("The connection to the Gemini API broke off.", retryable=True, detail=detail)
