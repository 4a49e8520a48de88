"""What the endpoints share: the upstream, the store, the counters, and the way from a request to its answer."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from gemcode.gateway.config import GatewayConfig
from gemcode.gateway.dialect import Asked, Dialect, Encoder, Failure, FailureKind
from gemcode.gateway.exchange import Exchange
from gemcode.gateway.metrics import Metrics
from gemcode.gateway.store import Store
from gemcode.gateway.upstream import Upstream, results_of
from gemcode.gemini.rest import RestClient

Handler = Callable[[Exchange], Awaitable[None]]
DATABASE = "responses.sqlite"
_Part = TypeVar("_Part")


class Service:
    """One gateway's parts. `start` and `stop` follow the server's lifetime."""

    def __init__(self, config: GatewayConfig) -> None:
        self.config = config
        self.metrics = Metrics()
        self._upstream: Upstream | None = None
        self._rest: RestClient | None = None
        self._store: Store | None = None

    def start(self, rest: RestClient) -> None:
        self._rest = rest
        self._upstream = Upstream(rest, self.metrics)
        self._store = Store(None if self.config.state is None else self.config.state / DATABASE)

    def stop(self) -> None:
        if self._store is not None:
            self._store.close()
        self._upstream = self._rest = self._store = None

    @property
    def upstream(self) -> Upstream:
        return _running(self._upstream)

    @property
    def rest(self) -> RestClient:
        return _running(self._rest)

    @property
    def store(self) -> Store:
        return _running(self._store)

    def generate(self, dialect: Dialect) -> Handler:
        """The plain endpoint of a dialect: decode, ask, tell."""

        async def handle(exchange: Exchange) -> None:
            body = await exchange.read_json()
            await self.answer(exchange, dialect, dialect.decode(body, self.config.resolve_model))

        return handle

    async def answer(
        self, exchange: Exchange, dialect: Dialect, asked: Asked, keep: Callable[[Encoder], None] = lambda encoder: None
    ) -> None:
        """Ask Gemini, tell the client: streamed or whole. `keep` sees what was said before the client knows the end."""
        for tool, ok in results_of(asked.request):
            outcome = "ok" if ok else "error"
            self.metrics.count("tool_results_total", tool=self.metrics.tool(tool), outcome=outcome)
        encoder = dialect.encoder(asked)
        events = self.upstream.reply(asked, dialect.name)

        async def stream() -> None:
            failure = await exchange.stream(events, encoder, self.config.ping_seconds, keep)
            if failure is not None:
                self.metrics.count("failures_total", dialect=dialect.name, kind=failure.kind.value)

        async def whole() -> None:
            try:
                async for event in events:
                    encoder.feed(event)
            except Failure as failure:
                if failure.kind not in encoder.told_failures:
                    raise
                encoder.fail(failure)
            keep(encoder)
            await exchange.answer_json(encoder.whole())

        await exchange.while_connected(stream() if asked.stream else whole())


def _running(part: _Part | None) -> _Part:
    if part is None:
        raise Failure(FailureKind.OVERLOADED, "The gateway is stopping.")
    return part
