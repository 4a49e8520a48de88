"""The bytes of request after request: a conversation only grows, so what was encoded once is kept. Pure."""

import operator

from gemcode.agent.messages import Message, ModelRequest
from gemcode.gemini import wire


class BodyEncoder:
    """Remembers the last conversation. Another one, or one that was changed in the middle, is encoded anew."""

    def __init__(self) -> None:
        self._model = ""
        self._begin()

    def _begin(self) -> None:
        self._messages: list[Message] = []
        self._contents: list[bytes] = []  # each with the comma before it
        self._known = wire.KnownCalls()

    def encode(self, request: ModelRequest, continuation_token: str | None = None) -> bytes:
        """The same bytes as of wire.encode_request, in the time that the new messages take."""
        messages = request.messages
        known = len(self._messages)
        same = len(messages) >= known and all(map(operator.is_, self._messages, messages))
        if not same or request.model != self._model:
            self._begin()
            self._model, known = request.model, 0
        modern = wire.takes_signatures(request.model)
        for message in messages[known:]:
            content = wire.encode_content(message, self._known, modern)
            self._messages.append(message)
            if content is not None:
                self._contents.append((b"," if self._contents else b"") + wire.dump_body(content))
        head = wire.dump_body(wire.encode_head(request))[:-1]
        begin = head + (b"," if len(head) > 1 else b"") + b'"contents":['
        token = {} if continuation_token is None else {"continuationToken": continuation_token}
        end = b"]" + (b"," if token else b"") + wire.dump_body(token)[1:]
        return b"".join((begin, *self._contents, end))  # copied once: it may be large
