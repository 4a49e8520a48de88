"""The head of a request has a bound: uvicorn's fast parser takes one of any size, before it is known who sends it."""

import asyncio

HEAD_LIMIT = 256 * 1024  # no client comes near


def bounded_protocol() -> type[asyncio.Protocol] | str:
    """What uvicorn is to speak HTTP with. Its slow parser, where the fast one is not installed, has a bound itself."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        return "h11"

    class BoundedProtocol(HttpToolsProtocol):
        """Counts what arrives until the head is complete; what comes with its end may be of the body."""

        _in_head = False
        _head = 0

        def data_received(self, data: bytes) -> None:
            if self._in_head:
                self._head += len(data)
                if self._head > HEAD_LIMIT:
                    self.send_400_response("The headers are too large.")
                    return
            super().data_received(data)

        def on_message_begin(self) -> None:
            self._in_head, self._head = True, 0
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._in_head = False
            super().on_headers_complete()

    return BoundedProtocol
