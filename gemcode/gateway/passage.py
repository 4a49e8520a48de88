"""The way through for Gemini's own clients: bytes in, bytes out, with the gateway's key."""

from collections.abc import Callable

from gemcode.agent.errors import ModelError
from gemcode.gateway import models, native
from gemcode.gateway.dialect import JSON_TYPE, SSE_TYPE, Failure, as_text, sse
from gemcode.gateway.exchange import Exchange
from gemcode.gateway.failures import from_error
from gemcode.gateway.native import NativeDialect
from gemcode.gateway.service import Service
from gemcode.gateway.upstream import VERSION
from gemcode.gemini import wire
from gemcode.gemini.rest import Answer
from gemcode.gemini.sse import EVENT_LIMIT, EventReader

_STREAMED = ":streamGenerateContent"
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
            if stored is not None and said is not None:
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
        try:
            async with self._service.rest.open(method, version, path, body, query) as answer:
                content_type = answer.headers.get("content-type", JSON_TYPE)
                again = {name: answer.headers[name] for name in ("retry-after",) if name in answer.headers}
                if path.endswith(_STREAMED) and answer.status == 200:
                    await exchange.begin(answer.status, content_type, again)
                    await _pass_pieces(exchange, answer, keep)
                else:  # whole, so that one that breaks off has a status of its own
                    data = await answer.read()
                    if keep is not None and answer.status == 200:
                        reader = EventReader()
                        keep([*reader.feed(data), *reader.close()])
                    await exchange.answer(answer.status, data, content_type, again)
        except (ModelError, Failure) as error:
            failure = from_error(error) if isinstance(error, ModelError) else error
            if not exchange.status:
                raise failure from None
            if "alt=sse" in query:  # the service itself ends a broken stream so; an array is left without its end
                await exchange.write(sse(self.speaker.error(failure).body), more=False)


async def _pass_pieces(exchange: Exchange, answer: Answer, keep: Callable[[list[object]], None] | None) -> None:
    """Whole events, as they come: behind half of one, no client would see the error that ends the stream."""
    reader = EventReader() if keep is not None else None
    events: list[object] = []
    waiting = bytearray()
    is_sse = answer.headers.get("content-type", "").startswith(SSE_TYPE)
    async for data in answer.chunks():
        events += reader.feed(data) if reader is not None else ()
        waiting += data
        end = len(waiting)
        if is_sse and end < EVENT_LIMIT:  # a longer one goes on in pieces
            end = _end_of_events(waiting, end - len(data))
        if end:
            await exchange.write(bytes(waiting[:end]))
            del waiting[:end]
    if reader is not None and keep is not None:
        keep([*events, *reader.close()])
    await exchange.write(bytes(waiting), more=False)


def _end_of_events(data: bytearray, new: int) -> int:
    """Where the last whole event ends, of which something is new; 0 for nowhere."""
    start = max(0, new - 3)
    ends = [data.rfind(blank, start) + len(blank) for blank in (b"\n\n", b"\r\n\r\n") if blank in data[start:]]
    return max(ends, default=0)
