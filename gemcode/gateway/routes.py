"""Which path does what: the endpoints of the gateway, and the few steps each takes. Knows HTTP only as an Exchange."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from gemcode.gateway.anthropic import AnthropicDialect
from gemcode.gateway.config import GatewayConfig
from gemcode.gateway.dialect import Asked, Dialect, Encoder, Failure, FailureKind
from gemcode.gateway.exchange import Exchange
from gemcode.gateway.metrics import Metrics
from gemcode.gateway.upstream import Upstream, results_of
from gemcode.gemini.rest import RestClient

Handler = Callable[[Exchange], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path. `dialect` is how its failures are told; a public one needs no token."""

    path: str
    methods: tuple[str, ...]
    dialect: Dialect
    handler: Handler
    public: bool = False


class Service:
    """What the endpoints work with. `start` and `stop` follow the server's lifetime."""

    def __init__(self, config: GatewayConfig) -> None:
        self.config = config
        self.metrics = Metrics()
        self.anthropic = AnthropicDialect()
        self._upstream: Upstream | None = None

    def start(self, rest: RestClient) -> None:
        self._upstream = Upstream(rest, self.metrics)

    def stop(self) -> None:
        self._upstream = None

    @property
    def upstream(self) -> Upstream:
        if self._upstream is None:
            raise Failure(FailureKind.OVERLOADED, "The gateway is stopping.")
        return self._upstream

    async def hello(self, exchange: Exchange) -> None:
        await exchange.answer_json({"status": "ok"})

    async def show_metrics(self, exchange: Exchange) -> None:
        await exchange.answer(200, self.metrics.text().encode(), "text/plain; version=0.0.4; charset=utf-8")

    def not_found(self) -> Endpoint:
        async def refuse(exchange: Exchange) -> None:
            raise Failure(FailureKind.NOT_FOUND, f"Nothing is served at {exchange.scope['path'][:200]}.")

        return Endpoint("/", (), self.anthropic, refuse)

    def generate(self, dialect: Dialect) -> Handler:
        async def handle(exchange: Exchange) -> None:
            body = await exchange.read_json()
            await self.answer(exchange, dialect, dialect.decode(body, self.config.resolve_model))

        return handle

    async def answer(self, exchange: Exchange, dialect: Dialect, asked: Asked) -> Encoder:
        """Ask Gemini, tell the client: streamed or whole. The encoder knows what was said."""
        for tool, ok in results_of(asked.request):
            outcome = "ok" if ok else "error"
            self.metrics.count("tool_results_total", tool=self.metrics.tool(tool), outcome=outcome)
        encoder = dialect.encoder(asked)
        events = self.upstream.reply(asked, dialect.name)

        async def stream() -> None:
            failure = await exchange.stream(events, encoder, self.config.ping_seconds)
            if failure is not None:
                self.metrics.count("failures_total", dialect=dialect.name, kind=failure.kind.value)

        async def whole() -> None:
            async for event in events:
                encoder.feed(event)
            await exchange.answer_json(encoder.whole())

        await exchange.while_connected(stream() if asked.stream else whole())
        return encoder

    async def count_tokens(self, exchange: Exchange) -> None:
        body = await exchange.read_json()
        asked = self.anthropic.decode(body, self.config.resolve_model)
        await exchange.answer_json({"input_tokens": await self.upstream.count(replace(asked, generation={}))})


def endpoints(service: Service) -> list[Endpoint]:
    anthropic = service.anthropic
    return [
        Endpoint("/", ("GET",), anthropic, service.hello, public=True),
        Endpoint("/healthz", ("GET",), anthropic, service.hello, public=True),
        Endpoint("/metrics", ("GET",), anthropic, service.show_metrics),
        Endpoint("/v1/messages", ("POST",), anthropic, service.generate(anthropic)),
        Endpoint("/v1/messages/count_tokens", ("POST",), anthropic, service.count_tokens),
    ]
