"""GeminiModel: one streamed step of the Gemini API. The I/O shell around wire.py and reply.py.

Light to import: google-genai comes in with the first request, or earlier and in a thread with `preload`.
"""

import asyncio
import gc
import importlib
import re
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING

from gemcode.agent.errors import ExitCode, ModelError
from gemcode.agent.messages import ModelRequest
from gemcode.agent.model import Metered, ModelEvent, ModelReplied
from gemcode.gemini import failures
from gemcode.gemini.body import BodyEncoder
from gemcode.gemini.reply import StreamDecoder
from gemcode.gemini.settings import GeminiSettings

if TYPE_CHECKING:
    from gemcode.gemini.transport import Session

_loading = threading.Lock()  # who comes second waits, and not in the event loop
_MODEL_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)


def preload() -> None:
    """Import the SDK: a quarter of a second, best spent in a thread while the person types."""
    with _loading:
        if "gemcode.gemini.transport" not in sys.modules:
            _load()


def _load() -> None:
    """Without looking for garbage, since all of it stays; and with the trusted certificates read at the same time,
    which takes a tenth of it and needs no lock of the interpreter."""
    collecting = gc.isenabled()
    gc.disable()
    trust = importlib.import_module("gemcode.gemini.trust")
    reading = threading.Thread(target=trust.read_early)
    reading.start()
    try:
        importlib.import_module("gemcode.gemini.transport")
    finally:
        reading.join()
        gc.freeze()
        if collecting:
            gc.enable()


def warm_up() -> None:
    """Preload, and make the first request as fast as the later ones."""
    preload()
    from gemcode.gemini.transport import rehearse

    rehearse()


class GeminiModel:
    """Implements Model. Each request is made once; trying again is for PersistentModel."""

    def __init__(self, settings: GeminiSettings) -> None:
        self._settings = settings
        self._session: Session | None = None
        self._bodies = BodyEncoder()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """One task does nothing but read, so that closing this generator ends the request at once.

        The SDK's own stream can't be closed while it is read, nor while its consumer is busy elsewhere.
        """
        queue: asyncio.Queue[ModelEvent | None] = asyncio.Queue()
        reading = asyncio.create_task(self._read(request, queue.put_nowait))
        reading.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
            yield reading.result()
        finally:
            reading.cancel()
            await asyncio.wait([reading])
            if not reading.cancelled():
                reading.exception()  # seen, even when nobody waited for it

    async def aclose(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.aclose()

    async def _read(self, request: ModelRequest, emit: Callable[[ModelEvent], None]) -> ModelReplied:
        _check_name(request.model)
        decoder = StreamDecoder(request)

        def receive(event: object) -> None:
            before = decoder.usage
            deltas = decoder.feed(event)
            if decoder.usage != before:
                emit(Metered(decoder.usage))
            for delta in deltas:
                emit(delta)

        await self._stream(request.model, self._bodies.encode(request), receive)
        while (token := decoder.next_hop()) is not None:
            await self._stream(request.model, self._bodies.encode(request, token), receive)
        return decoder.finish()

    async def _stream(self, model: str, body: bytes, receive: Callable[[object], None]) -> None:
        try:
            session = await self._connected()
            await session.stream(model, body, receive)
        except ModelError as error:
            for name in ("message", "hint", "detail"):
                setattr(error, name, self._settings.redact(getattr(error, name)))
            error.args = (error.message,)
            raise error from None

    async def _connected(self) -> "Session":
        """The session of this event loop: the SDK's client can't move to another."""
        _check_key(self._settings.api_key)
        await asyncio.to_thread(preload)
        from gemcode.gemini.transport import Session

        # No await from here on: two first requests at once must not make two sessions.
        if self._session is None or self._session.loop is not asyncio.get_running_loop():
            self._session = Session(self._settings)
        return self._session


def _check_key(key: str) -> None:
    hint = f"Set GEMINI_API_KEY; create a key at {failures.KEY_PAGE}."
    if not key.strip():
        raise ModelError("No API key is set.", hint, exit_code=ExitCode.USAGE)
    if not (key.strip().isascii() and key.strip().isprintable()) or key.startswith("auth_tokens/"):
        raise ModelError("The API key is not one: it has characters that no key has.", hint, exit_code=ExitCode.USAGE)


def _check_name(model: str) -> None:
    """A name becomes part of the address, so it must not be able to change it."""
    if not _MODEL_NAME.fullmatch(model):
        raise ModelError(
            f"{model!r} is not the name of a model.", "See gemcode models for the list.", exit_code=ExitCode.USAGE
        )
