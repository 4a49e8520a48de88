"""One client request against Gemini: encode, stream, repair what can be repaired before anything was sent.

Calls are held back until the reply is known to be whole: a client never runs a call of a reply that failed.
"""

import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Literal

from gemcode.agent.errors import ModelError
from gemcode.agent.messages import (
    Blob,
    JsonObject,
    ModelMessage,
    ModelPart,
    ModelRequest,
    Opaque,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from gemcode.agent.model import FinishKind, ModelReplied
from gemcode.gateway import lossy
from gemcode.gateway.dialect import Asked, Ended, Failure, FailureKind, ReplyEvent, Started
from gemcode.gateway.failures import from_body, from_error, from_service, refuses_schema
from gemcode.gateway.metrics import Metrics
from gemcode.gateway.signatures import SignatureMemory
from gemcode.gemini import wire
from gemcode.gemini.failures import ServiceError, mentions_signature
from gemcode.gemini.reply import StreamDecoder, decode_usage
from gemcode.gemini.rest import RestClient
from gemcode.gemini.sse import EventReader

VERSION = "v1beta"  # has everything: parametersJsonSchema, aliases of models
MALFORMED_RETRIES = 2
NUDGE = (
    "Your last answer could not be used: a function call was malformed, or the answer was empty. Answer again. If you "
    "call a function, use a declared name and arguments that are valid JSON for its schema."
)

# Where clients are told something else than the user of the assistant is.
_KINDS = {"MALFORMED_RESPONSE": FinishKind.MALFORMED, "LANGUAGE": FinishKind.OTHER}

Remedy = Literal["malformed", "signatures", "schema", "connection"]


class Repairable(Exception):
    """This attempt failed, but another may do better; if nothing was sent yet, it is made."""

    def __init__(self, remedy: Remedy, failure: Failure) -> None:
        super().__init__(failure.message)
        self.remedy = remedy
        self.failure = failure


@dataclass(slots=True)
class _Attempt:
    """How the request is made this time."""

    request: ModelRequest
    level: int
    number: int = 1
    malformed: int = 0
    repaired: frozenset[Remedy] = frozenset()


class Upstream:
    """The service as the dialects see it. Remembers signatures of calls, and which models refuse full schemas."""

    def __init__(self, rest: RestClient, metrics: Metrics, memory: SignatureMemory | None = None) -> None:
        self._rest = rest
        self._metrics = metrics
        self._memory = memory or SignatureMemory()
        self._levels: dict[str, int] = {}

    async def reply(self, asked: Asked, dialect: str) -> AsyncGenerator[ReplyEvent, None]:
        """The reply, event by event. Raises Failure, before the first event or in the middle."""
        request, unsigned = self._memory.complete(asked.request)
        self._metrics.count("sentinel_signatures_total", unsigned, dialect=dialect)
        attempt: _Attempt | None = _Attempt(request, self._levels.get(request.model, 0))
        while attempt is not None:
            said: list[ReplyEvent] = []
            try:
                async with aclosing(self._attempt(asked, attempt)) as events:
                    async for event in events:
                        said.append(event)
                        if isinstance(event, Ended):
                            self._remember(attempt, said)
                        yield event
                return
            except Repairable as trouble:
                following = None if said else _repair(attempt, trouble)
                if following is None:
                    raise trouble.failure from None
                self._metrics.count("retries_total", reason=trouble.remedy)
                if trouble.remedy == "signatures":
                    steps = sum(
                        isinstance(message, ModelMessage) and bool(message.calls) for message in request.messages
                    )
                    self._metrics.count("sentinel_signatures_total", steps - unsigned, dialect=dialect)
                attempt = following

    async def count(self, asked: Asked) -> int:
        """Prompt tokens as the service counts them."""
        request, _ = self._memory.complete(asked.request)
        model = request.model
        inner = {"model": f"models/{model}", **encode(replace(asked, request=request), self._levels.get(model, 0))}
        inner.pop("generationConfig", None)
        body = wire.dump_body({"generateContentRequest": inner})
        try:
            async with self._rest.open("POST", VERSION, f"models/{model}:countTokens", body) as answer:
                data = await answer.read()
        except ModelError as error:
            raise from_error(error) from None
        if answer.status != 200:
            raise from_body(answer.status, data, None)
        reader = EventReader()
        events = [*reader.feed(data), *reader.close()]
        total = events[0].get("totalTokens") if events and isinstance(events[0], dict) else None
        return total if isinstance(total, int) else 0

    async def _attempt(self, asked: Asked, attempt: _Attempt) -> AsyncGenerator[ReplyEvent, None]:
        arrived: list[ModelPart] = []
        decoder = StreamDecoder(attempt.request, lambda: secrets.token_hex(8), arrived.append)
        delivery = _Delivery(asked)
        body = encode(replace(asked, request=attempt.request), attempt.level)
        token: str | None = ""
        try:
            while token is not None:
                hop = {**body, "continuationToken": token} if token else body
                async with aclosing(self._events(attempt, hop)) as events:
                    async for event in events:
                        decoder.feed(event)
                        delivery.note(event)
                        for part in arrived:
                            for ready in delivery.take(part):
                                yield ready
                        arrived.clear()
                token = decoder.next_hop()
        except ModelError as error:
            failure = from_error(error)
            raise Repairable("connection", failure) if error.retryable else failure from None
        replied = decoder.finish()
        for ready in delivery.finish(replied):
            yield ready

    async def _events(self, attempt: _Attempt, body: JsonObject) -> AsyncGenerator[object, None]:
        """The JSON events of one streamed request; an error among them is raised."""
        model = attempt.request.model
        path = f"models/{model}:streamGenerateContent"
        limit = attempt.request.generation.max_output_tokens
        async with self._rest.open("POST", VERSION, path, wire.dump_body(body), "alt=sse") as answer:
            if answer.status != 200:
                raise _refused(from_body(answer.status, await answer.read(), limit), attempt)
            reader = EventReader()
            async for data in answer.chunks():
                for event in reader.feed(data):
                    yield _checked(event, limit, attempt)
            for event in reader.close():
                yield _checked(event, limit, attempt)

    def _remember(self, attempt: _Attempt, said: Sequence[ReplyEvent]) -> None:
        """A rung of the ladder is kept only once it has led to an answer: other refusals may look alike."""
        model = attempt.request.model
        if attempt.level > self._levels.get(model, 0):
            self._levels[model] = attempt.level
        self._memory.remember(model, [event for event in said if not isinstance(event, Started | Ended)])
        for event in said:
            if isinstance(event, ToolCall):
                self._metrics.count("tool_calls_total", tool=self._metrics.tool(event.name))
            elif isinstance(event, Ended):
                self._metrics.tokens(event.usage)


class _Delivery:
    """What may go to the client now, and what must wait for the end of the reply."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._usage: JsonObject = {}
        self._grounding: JsonObject = {}
        self._held: list[ModelPart] = []
        self._started = False
        self._spoke = False

    def note(self, event: object) -> None:
        if not isinstance(event, dict):
            return
        if isinstance(event.get("usageMetadata"), dict):
            self._usage = event["usageMetadata"]
        for candidate in event.get("candidates") or ():
            if isinstance(candidate, dict) and isinstance(candidate.get("groundingMetadata"), dict):
                self._grounding |= candidate["groundingMetadata"]

    def take(self, part: ModelPart) -> list[ReplyEvent]:
        if isinstance(part, Text) and not part.text and not part.signature:
            return []
        self._spoke = self._spoke or isinstance(part, Blob | Opaque) or (isinstance(part, Text) and bool(part.text))
        # A client that does not stream has received nothing before the end, so the whole reply can be made again.
        if self._held or isinstance(part, ToolCall) or not self._asked.stream:
            if not (isinstance(part, ToolCall) and self._asked.single_call and self._has_call()):
                self._held.append(part)
            return []
        return [*self._start(), part]

    def finish(self, replied: ModelReplied) -> list[ReplyEvent]:
        """The rest of the reply. Raises Failure or Repairable where it can't be used."""
        finish, usage = replied.finish, replied.usage
        finish = replace(finish, kind=_KINDS.get(finish.reason, finish.kind))
        match finish.kind:
            case FinishKind.MALFORMED:
                text = f"Gemini's answer was malformed ({finish.reason}). {finish.message}".strip()
                raise Repairable("malformed", Failure(FailureKind.MALFORMED, text))
            case FinishKind.OTHER if finish.reason == "MISSING_THOUGHT_SIGNATURE":
                failure = Failure(FailureKind.SERVER, "Gemini misses thought signatures in this conversation.")
                raise Repairable("signatures", failure)
            case FinishKind.EMPTY if not (self._spoke and finish.reason):
                what = "Gemini gave an empty answer." if finish.reason else "The answer of Gemini broke off."
                raise Repairable("malformed", Failure(FailureKind.SERVER, what))
            case FinishKind.OTHER if not self._spoke:
                text = f"Gemini gave no answer ({finish.reason}). {finish.message}".strip()
                raise Repairable("malformed", Failure(FailureKind.SERVER, text))
        whole = finish.kind is FinishKind.COMPLETE
        kept = [part for part in self._held if whole or not isinstance(part, ToolCall)]
        return [*self._start(), *kept, Ended(finish, usage, self._grounding)]

    def _has_call(self) -> bool:
        return any(isinstance(part, ToolCall) for part in self._held)

    def _start(self) -> list[ReplyEvent]:
        if self._started:
            return []
        self._started = True
        return [Started(decode_usage(self._usage))]


def encode(asked: Asked, level: int) -> JsonObject:
    """The body for Gemini: schemas on the given rung of the ladder, and the knobs that ModelRequest has not."""
    body = wire.encode_request(asked.request)
    if level:
        for declaration in body["tools"][0]["functionDeclarations"] if "tools" in body else ():
            reduced = lossy.to_openapi(declaration.pop("parametersJsonSchema", {}), level)
            if reduced is not None:
                declaration["parameters"] = reduced
    if asked.search:
        body["tools"] = [{"googleSearch": {}}]
    if asked.generation:
        body["generationConfig"] = {**body.get("generationConfig", {}), **asked.generation}
    return body


def _checked(event: object, limit: int | None, attempt: _Attempt) -> object:
    error = ServiceError.of_json(event)
    if error is not None:
        raise _refused(from_service(error, limit), attempt)
    return event


def _refused(failure: Failure, attempt: _Attempt) -> Exception:
    """What the service says no to, as far as it can be helped."""
    if failure.kind is FailureKind.INVALID:
        if mentions_signature(failure.message) and "signatures" not in attempt.repaired:
            return Repairable("signatures", failure)
        if attempt.request.tools and attempt.level < lossy.LEVELS and refuses_schema(failure.message):
            return Repairable("schema", failure)
    return failure


def _repair(attempt: _Attempt, trouble: Repairable) -> _Attempt | None:
    """The next attempt, or None when this trouble can't be helped any more."""
    following = replace(attempt, number=attempt.number + 1, repaired=attempt.repaired | {trouble.remedy})
    match trouble.remedy:
        case "schema":
            return replace(following, level=attempt.level + 1)
        case "signatures":
            if trouble.remedy in attempt.repaired:
                return None
            return replace(following, request=wire.without_signatures(attempt.request))
        case "connection":
            return None if trouble.remedy in attempt.repaired else following
        case "malformed":
            if attempt.malformed >= MALFORMED_RETRIES:
                return None
            request = attempt.request
            if attempt.malformed == 0:
                request = replace(request, messages=(*request.messages, UserMessage.of(NUDGE)))
            return replace(following, request=request, malformed=attempt.malformed + 1)


def results_of(request: ModelRequest) -> list[tuple[str, bool]]:
    """Name and success of the results that this request brings: those after the last words of the model."""
    last = request.messages[-1] if isinstance(request.messages[-1], ToolMessage) else None
    if last is None and len(request.messages) > 1 and isinstance(request.messages[-2], ToolMessage):
        last = request.messages[-2]
    return [(result.name, result.ok) for result in last.results] if last is not None else []
