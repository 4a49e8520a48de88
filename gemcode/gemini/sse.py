"""Bytes of a streamed answer → JSON events. Pure.

More lenient than the SDK: comments, other SSE fields, a bare JSON tail and a whole JSON answer are all understood, and
a line ends as in SSE: CR, LF or both (the SDK also breaks at U+2028 and its like, in the middle of a JSON string).
"""

import codecs
import json
import math
from typing import NoReturn

from gemcode.agent.errors import ModelError
from gemcode.gemini import failures

EVENT_LIMIT = 16 * 1024 * 1024
RESPONSE_LIMIT = 32 * 1024 * 1024

_IGNORED_FIELDS = (b":", b"event:", b"id:", b"retry:")


class EventReader:
    """Feed it bytes as they come; it gives the events that are complete."""

    def __init__(self, event_limit: int = EVENT_LIMIT, response_limit: int = RESPONSE_LIMIT) -> None:
        self._event_limit = event_limit
        self._response_limit = response_limit
        self._received = 0
        self._line = bytearray()
        self._data: list[bytes] = []
        self._bare: list[bytes] = []  # lines that are no SSE: an error's JSON, or a web page
        self._pending = 0  # bytes of the event under way
        self._any_event = False
        self._first_line = True
        self._after_return = False  # whether the last byte was a carriage return

    def feed(self, data: bytes) -> list[object]:
        self._received += len(data)
        if self._received > self._response_limit:
            raise _too_large("answer", self._response_limit)
        events: list[object] = []
        if not data:
            return []
        if self._after_return:
            data = data.removeprefix(b"\n")  # the other half of a line end
        self._after_return = data.endswith(b"\r")
        *complete, rest = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for piece in complete:
            self._line += piece
            line = bytes(self._line)
            self._line.clear()
            events += self._take_line(line)
        self._line += rest
        if self._pending + len(self._line) > self._event_limit:
            raise _too_large("event", self._event_limit)
        return events

    def close(self) -> list[object]:
        """The events that were still open when the body ended."""
        events = self._take_line(bytes(self._line))
        self._line.clear()
        events += self._take_line(b"")
        bare = b"\n".join(self._bare).strip()
        if bare:
            value = self._parse(bare)
            events += value if isinstance(value, list) else [value]
        return events

    def _take_line(self, line: bytes) -> list[object]:
        if self._first_line:
            line, self._first_line = line.removeprefix(codecs.BOM_UTF8), False
        if not line:
            data, self._data, self._pending = b"\n".join(self._data), [], 0
            if data in (b"", b"[DONE]"):
                return []
            self._any_event = True
            return [self._parse(data)]
        self._pending += len(line)
        if self._pending > self._event_limit:
            raise _too_large("event", self._event_limit)
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
        elif not line.startswith(_IGNORED_FIELDS):
            self._bare.append(line)
        return []

    def _parse(self, data: bytes) -> object:
        try:
            return _DECODER.decode(data.decode(json.detect_encoding(data), "surrogatepass"))
        except (ValueError, RecursionError) as error:
            text = data.decode("utf-8", "replace")
            if self._any_event or text.startswith(("{", "[")):
                raise failures.broken_stream(f"{error}: {text[:500]}") from None
            raise failures.not_gemini(text) from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(number: str) -> float:
    """1e999 is JSON, but what it becomes is not: it could not be sent back."""
    value = float(number)
    return value if math.isfinite(value) else _refuse(number)


_DECODER = json.JSONDecoder(
    parse_float=_finite, parse_constant=_refuse
)  # made once: json.loads would make one for every event


def _too_large(what: str, limit: int) -> ModelError:
    return ModelError(f"The server's {what} is larger than {limit / 2**20:g} MiB.", "Try again.")
