"""Thought signatures that a client has no channel for: a bounded memory. After that comes the documented escape."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace

from gemcode.agent.messages import Message, ModelMessage, ModelPart, ModelRequest, Text, ToolCall
from gemcode.gateway.dialect import clean_id
from gemcode.gemini import catalog

ENTRIES = 20_000
BYTES = 64 * 1024 * 1024
SECONDS = 6 * 3600.0

_Key = tuple[str, str, str]


class SignatureMemory:
    """The signatures of recent replies, least recently used ones forgotten first. Belongs to one gateway process."""

    def __init__(self, entries: int = ENTRIES, size: int = BYTES, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries = entries
        self._size = size
        self._held: OrderedDict[_Key, tuple[str, float]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    def remember(self, model: str, parts: Sequence[ModelPart]) -> None:
        """Keep the signatures of one whole reply."""
        for part in parts:
            if isinstance(part, ToolCall) and part.signature:
                self._put(_call_key(model, part), part.signature)
        if parts and isinstance(parts[-1], Text) and not parts[-1].text and parts[-1].signature:
            self._put(_text_key(model, parts), parts[-1].signature)

    def complete(self, request: ModelRequest) -> tuple[ModelRequest, int]:
        """The request with what is remembered where a client dropped it, and how many steps stay unsigned.

        Those get the escape when the request is encoded; models before 3 need none.
        """
        if catalog.generation(request.model) < (3, 0):
            return request, 0
        messages: list[Message] = []
        unsigned = 0
        for message in request.messages:
            if isinstance(message, ModelMessage):
                message, missing = self._completed(request.model, message)
                unsigned += missing
            messages.append(message)
        return replace(request, messages=tuple(messages)), unsigned

    def _completed(self, model: str, message: ModelMessage) -> tuple[ModelMessage, bool]:
        first = next(iter(message.calls), None)
        if first is None:
            signature = None
            if not any(isinstance(part, Text) and part.signature for part in message.parts):
                signature = self._get(_text_key(model, message.parts))
            return (message if signature is None else ModelMessage((*message.parts, Text("", signature)))), False
        if first.signature is not None:
            return message, False
        signature = self._get(_call_key(model, first))
        signed = replace(first, signature=signature)
        return ModelMessage(tuple(signed if part is first else part for part in message.parts)), signature is None

    def _put(self, key: _Key, signature: str) -> None:
        self._forget(key)
        self._held[key] = (signature, self._clock() + SECONDS)
        self._bytes += len(signature)
        while self._held and (len(self._held) > self._entries or self._bytes > self._size):
            self._forget(next(iter(self._held)))

    def _get(self, key: _Key) -> str | None:
        signature, expires = self._held.get(key, ("", 0.0))
        if not signature or expires < self._clock():
            self._forget(key)
            return None
        self._held.move_to_end(key)
        return signature

    def _forget(self, key: _Key) -> None:
        signature, _ = self._held.pop(key, ("", 0.0))
        self._bytes -= len(signature)


def _call_key(model: str, call: ToolCall) -> _Key:
    return model, clean_id(call.id), call.name  # as the client knows it


def _text_key(model: str, parts: Sequence[ModelPart]) -> _Key:
    """A final text is known again by its words; clients trim the space around them."""
    text = "".join(part.text for part in parts if isinstance(part, Text)).strip()
    return model, "text", hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
