"""How to reach the service, and what must never be shown of it. Values only."""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TypeAlias
from urllib.parse import quote

from gemcode.frozen import frozen

DEFAULT_BASE_URL = "https://generativelanguage.googleapis.com"
_SHORTEST_KEY = 6  # anything shorter is no key, and replacing it would garble the text


@frozen
class Sent:
    """A request for an answer went out."""

    model: str
    body: bytes


@frozen
class Received:
    """One event of a stream, as JSON."""

    event: object


@frozen
class Refused:
    """An answer with another status than 200."""

    status: int
    body: bytes
    headers: Mapping[str, str]


@frozen
class Broken:
    """The stream failed, or the connection did, or we left."""

    reason: str


Traffic: TypeAlias = Sent | Received | Refused | Broken


@frozen
class GeminiSettings:
    """`trace` is told one line per request and per answer; `observe` is told all that goes to and fro."""

    api_key: str = field(repr=False)
    base_url: str | None = None
    api_version: str = "v1"
    connect_timeout: float = 10.0
    read_timeout: float = 300.0  # of silence: thinking takes minutes before the first byte
    event_bytes: int = 16 * 1024 * 1024  # of one event of a stream
    trace: Callable[[str], None] | None = None
    observe: Callable[[Traffic], None] | None = None

    def redact(self, text: str) -> str:
        """The text without the key, wherever it came from."""
        key = self.api_key.strip()
        if len(key) >= _SHORTEST_KEY:
            for spelling in (key, quote(key, safe="")):
                text = text.replace(spelling, "[key]")
        return text
