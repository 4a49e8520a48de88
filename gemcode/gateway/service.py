"""What the endpoints share: the upstream, the store, the counters, and the way from a request to its answer."""

from collections.abc import Awaitable, Callable
from contextlib import aclosing

from gemcode.gateway.config import GatewayConfig
from gemcode.gateway.dialect import Asked, Dialect, Encoder, Failure
from gemcode.gateway.exchange import Exchange
from gemcode.gateway.metrics import Metrics
from gemcode.gateway.names import safe_name
from gemcode.gateway.store import Store
from gemcode.gateway.upstream import Upstream, results_of
from gemcode.gemini.rest import RestClient

Handler = Callable[[Exchange], Awaitable[None]]
Write = Callable[[str], None]
DATABASE = "responses.sqlite"


class Service:
    """One gateway's parts, made before it serves: what is wrong with them is said then, as GemcodeError."""

    def __init__(self, config: GatewayConfig, report: Write) -> None:
        """`report` hears of what the person should know: never what was said by whom."""
        self.config = config
        self.report = report
        self.metrics = Metrics()
        self.rest = RestClient(config.gemini)
        self.store = Store(None if config.state is None else config.state / DATABASE)
        self.upstream = Upstream(self.rest, self.metrics)

    async def stop(self) -> None:
        self.store.close()
        await self.rest.aclose()

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
        self._note(asked, dialect.name)
        encoder = dialect.encoder(asked)
        events = self.upstream.reply(asked, dialect.name)

        async def stream() -> None:
            failure = await exchange.stream(events, encoder, self.config.ping_seconds, keep)
            if failure is not None:
                self.metrics.count("failures_total", dialect=dialect.name, kind=failure.kind.value)

        async def whole() -> None:
            try:
                async with aclosing(events):
                    async for event in events:
                        encoder.feed(event)
            except Failure as failure:
                if failure.kind not in encoder.told_failures:
                    raise
                encoder.fail(failure)
            keep(encoder)
            await exchange.answer_json(encoder.whole())

        await exchange.while_connected(stream() if asked.stream else whole())

    def _note(self, asked: Asked, dialect: str) -> None:
        """Count the tools of a request. Of a hosted one that is left out the person hears the first time."""
        for name, ok in results_of(asked.request):
            outcome = "ok" if ok else "error"
            self.metrics.count("tool_results_total", tool=self.metrics.tool(name), outcome=outcome)
        for name in asked.left_out:
            tool = self.metrics.tool(safe_name(name))
            if not self.metrics.value("left_out_tools_total", dialect=dialect, tool=tool):
                self.report(f"A hosted tool can't be served, and is left out: {tool} ({dialect}).")
            self.metrics.count("left_out_tools_total", dialect=dialect, tool=tool)
