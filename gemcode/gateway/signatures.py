"""Thought signatures for clients without a channel for them: a bounded memory, and the documented escape after that."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

from gemcode.agent.messages import Message, ModelMessage, ModelPart, ModelRequest, ToolCall
from gemcode.gemini import catalog

ENTRIES = 20_000
BYTES = 64 * 1024 * 1024
SECONDS = 6 * 3600.0


class SignatureMemory:
    """The signatures of recent calls, least recently used ones forgotten first. Belongs to one gateway process."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, entries: int = ENTRIES, size: int = BYTES
    ) -> None:
        self._clock = clock
        self._entries = entries
        self._size = size
        self._held: OrderedDict[tuple[str, str, str], tuple[str, float]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    def remember(self, model: str, call: ToolCall) -> None:
        if not call.signature:
            return
        key = (model, call.id, call.name)
        self._forget(key)
        self._held[key] = (call.signature, self._clock() + SECONDS)
        self._bytes += len(call.signature)
        while self._held and (len(self._held) > self._entries or self._bytes > self._size):
            self._forget(next(iter(self._held)))

    def recall(self, model: str, call: ToolCall) -> str | None:
        key = (model, call.id, call.name)
        signature, expires = self._held.get(key, ("", 0.0))
        if not signature or expires < self._clock():
            self._forget(key)
            return None
        self._held.move_to_end(key)
        return signature

    def _forget(self, key: tuple[str, str, str]) -> None:
        signature, _ = self._held.pop(key, ("", 0.0))
        self._bytes -= len(signature)

    def complete(self, request: ModelRequest) -> tuple[ModelRequest, int]:
        """The request with what is remembered on each step's unsigned first call, and how many stay unsigned.

        Those get the escape when the request is encoded; models before 3 need none.
        """
        if catalog.generation(request.model) < (3, 0):
            return request, 0
        messages: list[Message] = []
        unsigned = 0
        for message in request.messages:
            first = message.calls[0] if isinstance(message, ModelMessage) and message.calls else None
            if isinstance(message, ModelMessage) and first is not None and first.signature is None:
                signature = self.recall(request.model, first)
                unsigned += signature is None
                parts: list[ModelPart] = [
                    replace(part, signature=signature) if part is first and isinstance(part, ToolCall) else part
                    for part in message.parts
                ]
                message = ModelMessage(tuple(parts))
            messages.append(message)
        return replace(request, messages=tuple(messages)), unsigned
