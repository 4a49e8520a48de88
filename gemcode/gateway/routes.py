"""Which path does what: the list of endpoints, and the handlers too small for a file of their own."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from gemcode.gateway import models
from gemcode.gateway.anthropic import AnthropicDialect
from gemcode.gateway.bedrock import BedrockDialect
from gemcode.gateway.chat import ChatDialect
from gemcode.gateway.dialect import Failure, FailureKind, Speaker, dump_bytes
from gemcode.gateway.exchange import Exchange
from gemcode.gateway.passage import Passage
from gemcode.gateway.responses import ResponsesDialect
from gemcode.gateway.service import Handler, Service
from gemcode.gateway.stateful import StatefulResponses

# Headers that only these vendors' clients send.
_ANTHROPIC, _GOOGLE = "anthropic-version", "x-goog-api-key"
_OPERATIONS = {"converse": False, "converse-stream": True}
_PASSING = (FailureKind.SERVER, FailureKind.OVERLOADED, FailureKind.RATE_LIMITED)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path. `speaker` tells its failures; a public one needs no token."""

    path: str
    methods: tuple[str, ...]
    speaker: Speaker
    handler: Handler
    public: bool = False
    vendors: Mapping[str, Speaker] = field(default_factory=dict)  # a header that one vendor's clients send → theirs

    def speaker_for(self, headers: Mapping[str, str]) -> Speaker:
        return next((speaker for name, speaker in self.vendors.items() if name in headers), self.speaker)


def endpoints(service: Service) -> list[Endpoint]:
    """Every path that is served; the last ones catch the rest, each in the dialect that it most likely is."""
    anthropic, openai, chat, bedrock = AnthropicDialect(), ResponsesDialect(), ChatDialect(), BedrockDialect()
    state, passage = StatefulResponses(service, openai), Passage(service)
    model_list = _model_list(passage)
    vendors: dict[str, Speaker] = {_GOOGLE: passage.speaker, _ANTHROPIC: anthropic}
    unserved: dict[str, Speaker] = {"/v1/messages": anthropic, "/v1beta/": passage.speaker, "/model/": bedrock}
    unserved |= {"/v1/": openai, "/": anthropic}
    return [
        Endpoint("/", ("GET",), anthropic, _hello, public=True),
        Endpoint("/healthz", ("GET",), anthropic, _hello, public=True),
        Endpoint("/metrics", ("GET",), anthropic, _metrics(service)),
        Endpoint("/v1/messages", ("POST",), anthropic, service.generate(anthropic)),
        Endpoint("/v1/messages/count_tokens", ("POST",), anthropic, _count(service, anthropic)),
        Endpoint("/v1/responses", ("POST",), openai, state.create),
        Endpoint("/v1/responses/{id}", ("GET", "DELETE"), openai, state.stored_response),
        Endpoint("/v1/conversations", ("POST",), openai, state.create_conversation),
        Endpoint("/v1/conversations/{id}", ("GET", "DELETE"), openai, state.stored_conversation),
        Endpoint("/v1/conversations/{id}/items", ("GET",), openai, state.conversation_items),
        Endpoint("/v1/chat/completions", ("POST",), chat, service.generate(chat)),
        Endpoint("/model/{path:path}", ("POST",), bedrock, _converse(service, bedrock)),
        Endpoint("/v1/gemini", ("POST",), passage.speaker, passage.gemini),
        Endpoint("/v1/models", ("GET",), openai, model_list, vendors=vendors),
        Endpoint("/v1beta/models", ("GET",), passage.speaker, passage.forward),
        Endpoint("/v1/models/{path:path}", ("GET",), openai, model_list, vendors=vendors),
        Endpoint("/v1/models/{path:path}", ("POST",), passage.speaker, passage.forward),
        Endpoint("/v1beta/models/{path:path}", ("GET", "POST"), passage.speaker, passage.forward),
        *(
            Endpoint(start + "{rest:path}", (), speaker, _nothing, vendors=vendors if start == "/v1/" else {})
            for start, speaker in unserved.items()
        ),
    ]


async def _hello(exchange: Exchange) -> None:
    await exchange.answer_json({"status": "ok"})


async def _nothing(exchange: Exchange) -> None:
    method, path = exchange.scope["method"], exchange.scope["path"][:200]
    raise Failure(FailureKind.NOT_FOUND, f"{method} {path} is not served here.")


def _metrics(service: Service) -> Handler:
    async def handle(exchange: Exchange) -> None:
        await exchange.answer(200, service.metrics.text().encode(), "text/plain; version=0.0.4; charset=utf-8")

    return handle


def _count(service: Service, anthropic: AnthropicDialect) -> Handler:
    async def handle(exchange: Exchange) -> None:
        body = await exchange.read_json()
        asked = anthropic.decode(body, service.config.resolve_model)

        async def count() -> None:
            try:
                tokens = await service.upstream.count(asked)
            except Failure as failure:
                if failure.kind not in _PASSING:
                    raise
                tokens = math.ceil(len(dump_bytes(body)) / 4)  # a client that can't count compacts too late
            await exchange.answer_json({"input_tokens": tokens})

        await exchange.while_connected(count())

    return handle


def _converse(service: Service, bedrock: BedrockDialect) -> Handler:
    async def handle(exchange: Exchange) -> None:
        # Ids of models hold slashes and colons that arrive unescaped: the operation is what follows the last slash.
        model, _, operation = str(exchange.scope["path"]).removeprefix("/model/").rpartition("/")
        if operation not in _OPERATIONS:
            raise Failure(FailureKind.NOT_FOUND, "Only converse and converse-stream are served here.")
        body = {**await exchange.read_json(), "modelId": model, "stream": _OPERATIONS[operation]}
        await service.answer(exchange, bedrock, bedrock.decode(body, service.config.resolve_model))

    return handle


def _model_list(passage: Passage) -> Handler:
    """One path for three vendors: who asks is seen from the headers that only its clients send."""

    async def handle(exchange: Exchange) -> None:
        name = exchange.scope.get("path_params", {}).get("path", "")
        if _GOOGLE in exchange.headers or "key=" in exchange.query:
            await passage.forward(exchange)
        elif _ANTHROPIC in exchange.headers:
            await exchange.answer_json(models.anthropic_model(name) if name else models.anthropic_list())
        else:
            await exchange.answer_json(models.openai_model(name) if name else models.openai_list())

    return handle
