"""The way through for Gemini's own clients: bytes in, bytes out, with the gateway's key."""

from collections.abc import Callable

from gemcode.agent.errors import ModelError
from gemcode.gateway import models, native
from gemcode.gateway.dialect import Failure, as_text
from gemcode.gateway.exchange import Exchange
from gemcode.gateway.failures import from_error
from gemcode.gateway.native import NativeDialect
from gemcode.gateway.service import Service
from gemcode.gateway.upstream import VERSION
from gemcode.gemini import wire
from gemcode.gemini.sse import EventReader

_STORED = "gemini:"  # these conversations hold Gemini's contents, not the items of other dialects


class Passage:
    def __init__(self, service: Service) -> None:
        self._service = service
        self.speaker = NativeDialect()

    async def forward(self, exchange: Exchange) -> None:
        """models, models/NAME and models/NAME:action, under the version that the client used."""
        version, _, rest = str(exchange.scope["path"]).lstrip("/").partition("/")
        path, body = rest.rstrip("/"), None
        if exchange.scope["method"] == "POST":
            model, action = native.split_path(path.removeprefix("models/"))
            path = f"models/{self._service.config.resolve_model(model)}:{action}"
            body = await exchange.read_body()
        elif path != "models":
            models.check_name(path.removeprefix("models/"))
        query = native.forwarded_query(exchange.query)
        await exchange.while_connected(self._pass(exchange, (version, path, query), body))

    async def gemini(self, exchange: Exchange) -> None:
        """A body of generateContent with the model inside, and a conversation that may be stored here."""
        body = await exchange.read_json()
        model = self._service.config.resolve_model(as_text(body.get("model", self._service.config.model), "model"))
        conversation = native.conversation_id(body)
        stored = None if conversation is None else _STORED + conversation
        earlier = self._service.store.conversation_items(stored) if stored is not None else []
        data = wire.dump_body(native.prepare(body, earlier))
        action, query = ("streamGenerateContent", "alt=sse") if body.get("stream") is True else ("generateContent", "")
        place = (VERSION, f"models/{model}:{action}", query)

        def keep(events: list[object]) -> None:
            said = native.model_content(events)
            if stored is not None and said is not None and exchange.status == 200:
                self._service.store.append(stored, [*native.own_contents(body), said])

        await exchange.while_connected(self._pass(exchange, place, data, keep if stored is not None else None))

    async def _pass(
        self,
        exchange: Exchange,
        place: tuple[str, str, str],
        body: bytes | None,
        keep: Callable[[list[object]], None] | None = None,
    ) -> None:
        """Move the answer along. `keep` sees its events, before the client knows the end."""
        version, path, query = place
        method = "GET" if body is None else "POST"
        reader = EventReader() if keep is not None else None
        events: list[object] = []
        try:
            async with self._service.rest.open(method, version, path, body, query) as answer:
                again = {name: answer.headers[name] for name in ("retry-after",) if name in answer.headers}
                await exchange.begin(answer.status, answer.headers.get("content-type", "application/json"), again)
                async for data in answer.chunks():
                    await exchange.write(data)
                    events += reader.feed(data) if reader is not None else ()
            if reader is not None and keep is not None:
                keep([*events, *reader.close()])
        except ModelError as error:
            failure = from_error(error)
            if not exchange.status:
                raise failure from None
            await exchange.write(_error_event(self.speaker, failure, query))
        await exchange.write(b"", more=False)


def _error_event(speaker: NativeDialect, failure: Failure, query: str) -> bytes:
    """The service itself ends a broken stream with its error object."""
    data = wire.dump_body(speaker.error(failure).body)
    return b"data: " + data + b"\r\n\r\n" if "alt=sse" in query else data
