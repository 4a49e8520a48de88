"""What the service does with one request: checks it, asks the brain, shapes the answer. Knows no sockets."""

import base64
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gemcode.simulator import catalog, usage
from gemcode.simulator.caches import Caches
from gemcode.simulator.catalog import KnownModel
from gemcode.simulator.errors import (
    READY_MADE,
    Rejected,
    invalid_argument,
    key_missing,
    key_rejected,
    model_not_found,
    payload_too_large,
)
from gemcode.simulator.payload import decode_bytes
from gemcode.simulator.playback import Framing
from gemcode.simulator.reply import Brain, HttpError, RecordedRequest, Reply, Text
from gemcode.simulator.rules import read_request
from gemcode.simulator.shapes import Event, Turn, shape
from gemcode.simulator.signatures import Signatures, canonical_json

INVALID_KEY = "invalid"  # refused even when every other key passes
DEFAULT_PAGE_SIZE = 50
GENERATE = ("generateContent", "streamGenerateContent")
_COUNT = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Settings:
    """How strict the simulator is, and limits that tests make smaller than the real ones."""

    valid_keys: frozenset[str] | None = None  # None: every key but INVALID_KEY
    strict_ids: bool = False  # 3.5+: a call and its result without ids are refused too
    accept_unknown_signatures: bool = False
    extra_models: frozenset[str] = frozenset()
    payload_limit: int = 20_971_520
    input_limit: int | None = None
    output_limit: int | None = None  # of one Gemini 4 request, before it continues in the next one
    cache_minimum: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A JSON body to send at once."""

    body: Any


@dataclass(frozen=True, slots=True)
class Failure:
    """An HTTP error of the script, after a delay."""

    error: HttpError
    delay: float


@dataclass(frozen=True, slots=True)
class Performance:
    """A reply to play: its delays and faults, the shaped events, and how they are framed."""

    reply: Reply
    events: list[Event]
    framing: Framing


@dataclass(frozen=True, slots=True)
class _Pending:
    """A Gemini 4 answer that was cut by the output cap: for which request, and what is left of it."""

    request: str
    rest: Reply | None


class Service:
    """One simulated service with its memory: caches, implicit cache, continuations, remembered signatures."""

    def __init__(self, brain: Brain, settings: Settings) -> None:
        self._brain = brain
        self._settings = settings
        self._signatures = Signatures(accept_unknown=settings.accept_unknown_signatures)
        self._caches = Caches()
        self._implicit = usage.ImplicitCache()
        self._pending: dict[bytes, _Pending] = {}

    def check_key(self, key: str | None, authorization: str | None) -> None:
        if not key:
            raise READY_MADE["unauthenticated"]("", 0) if authorization else key_missing()
        valid = self._settings.valid_keys
        if key == INVALID_KEY or (valid is not None and key not in valid):
            raise key_rejected()

    def handle(self, request: RecordedRequest) -> Answer | Failure | Performance:
        """The answer to a request with a good key. Raises Rejected, or ScenarioExhausted from the brain."""
        if request.size > self._settings.payload_limit:
            raise payload_too_large(self._settings.payload_limit)
        if "/cachedContents" in request.path:
            name = request.path.partition("/cachedContents")[2].strip("/") or None
            return Answer(self._caches.handle(request.method, request.version, name, request.body))
        if request.action in GENERATE:
            return self._generate(request)
        if request.action == "countTokens":
            return Answer(self._count(request))
        if request.action:
            raise model_not_found(request.version, request.model, request.action)
        return Answer(self._get_model(request) if request.model else self._list_models(request))

    def _model(self, request: RecordedRequest) -> KnownModel:
        model = catalog.find_model(request.version, request.model)
        if model is None and request.model in self._settings.extra_models:
            model = catalog.unlisted_model(request.model)
        if model is None:
            raise model_not_found(request.version, request.model, request.action)
        settings = self._settings
        return replace(
            model,
            input_limit=settings.input_limit or model.input_limit,
            cache_minimum=settings.cache_minimum if settings.cache_minimum is not None else model.cache_minimum,
        )

    def _read(self, request: RecordedRequest, model: KnownModel) -> dict[str, Any]:
        return read_request(
            request.version,
            model,
            request.action,
            request.body,
            strict_ids=self._settings.strict_ids,
            signatures=self._signatures,
        )

    def _generate(self, request: RecordedRequest) -> Failure | Performance:
        model = self._model(request)
        body = self._read(request, model)
        explicit = self._caches.tokens(body["cached_content"]) if "cached_content" in body else 0
        reply = self._continued(body) or self._brain.answer(request)
        if reply.error is not None:
            return Failure(_http_error(reply, request), reply.delay_first)
        streams = request.action == "streamGenerateContent"
        reply, token = self._cap(reply, model, body, streams=streams)
        prompt = usage.prompt_text(body)
        turn = Turn(
            model,
            stream=streams,
            has_tools="tools" in body,
            wants_thoughts=bool(body.get("generation_config", {}).get("thinking_config", {}).get("include_thoughts")),
            prompt_tokens=usage.count_text(prompt) + explicit,
            cached_tokens=explicit + self._implicit.hit(model.name, prompt, model.cache_minimum),
            continuation_token=token,
        )
        events = shape(reply, turn)
        self._remember(model, body, events)
        form = Framing("unary") if not streams else Framing("sse" if request.query.get("alt") == "sse" else "array")
        return Performance(reply, events, form)

    def _continued(self, body: dict[str, Any]) -> Reply | None:
        """The rest of an answer that an earlier request began; None if this request begins one."""
        token = body.get("continuation_token")
        if token is None:
            return None
        pending = self._pending.get(token)
        if pending is None or pending.request != _request_key(body):
            raise invalid_argument("Invalid continuation token.", hint="unknown token, or not the same request")
        return pending.rest

    def _cap(self, reply: Reply, model: KnownModel, body: dict[str, Any], *, streams: bool) -> tuple[Reply, str | None]:
        """Gemini 4 answers at most so much per request and hands out a token for the rest."""
        if not model.continues:
            return reply, None
        limit = self._settings.output_limit or (model.output_limit if streams else model.unary_output_limit)
        reply, rest = _split(reply, limit * usage.BYTES_PER_TOKEN)
        if reply.finish != "CONTINUATION":
            return reply, None
        token = secrets.token_bytes(96)
        self._pending[token] = _Pending(_request_key(body), rest)
        return reply, base64.b64encode(token).decode()

    def _remember(self, model: KnownModel, body: dict[str, Any], events: Iterable[Event]) -> None:
        """What the scenario itself put on the wire is genuine when it comes back."""
        for candidate in (candidate for event in events for candidate in _objects(event.body, "candidates")):
            if token := decode_bytes(str(candidate.get("continuationToken", ""))):
                self._pending.setdefault(token, _Pending(_request_key(body), None))
            for part in _objects(candidate.get("content"), "parts"):
                if signature := decode_bytes(str(part.get("thoughtSignature", ""))):
                    self._signatures.remember(model.name, signature)

    def _count(self, request: RecordedRequest) -> dict[str, Any]:
        body = self._read(request, self._model(request))
        tokens = usage.count_prompt(body.get("generate_content_request", body))
        return {"totalTokens": tokens, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens}]}

    def _get_model(self, request: RecordedRequest) -> dict[str, Any]:
        for model in catalog.listing(request.version):
            if model.name == request.model:
                return catalog.description(model)
        raise Rejected(
            404, "NOT_FOUND", f"Model is not found: models/{request.model} for api version {request.version}"
        )

    def _list_models(self, request: RecordedRequest) -> dict[str, Any]:
        models = [catalog.description(model) for model in catalog.listing(request.version)]
        size = request.query.get("pageSize") or str(DEFAULT_PAGE_SIZE)
        start = request.query.get("pageToken") or "0"
        if not (_COUNT.fullmatch(size) and _COUNT.fullmatch(start)):
            raise invalid_argument()
        first, last = int(start), int(start) + (int(size) or DEFAULT_PAGE_SIZE)
        page: dict[str, Any] = {"models": models[first:last]}
        return page | ({"nextPageToken": str(last)} if last < len(models) else {})


def _http_error(reply: Reply, request: RecordedRequest) -> HttpError:
    if isinstance(reply.error, HttpError):
        return reply.error
    if reply.error == "not_found":  # the one body that repeats the version of the address
        rejected = model_not_found(request.version, request.model, request.action)
    else:
        rejected = READY_MADE[str(reply.error)](request.model, reply.retry_after)
    return HttpError(rejected.http_code, rejected.body())


def _request_key(body: Mapping[str, Any]) -> str:
    """The request without its token; an empty message is the same as none (the official client adds one)."""
    return canonical_json({key: value for key, value in body.items() if value and key != "continuation_token"})


def _split(reply: Reply, size: int) -> tuple[Reply, Reply | None]:
    """The reply up to `size` bytes of text, and the rest if there is any."""
    left = size
    for index, step in enumerate(reply.steps):
        if not isinstance(step, Text):
            continue
        encoded = step.text.encode("utf-8", "surrogatepass")
        if len(encoded) > left:
            head = encoded[:left].decode("utf-8", "ignore")
            tail = step.text[len(head) :]
            first = replace(reply, steps=(*reply.steps[:index], Text(head)), finish="CONTINUATION", finish_message=None)
            return first, replace(reply, steps=(Text(tail), *reply.steps[index + 1 :]), delay_first=0.0)
        left -= len(encoded)
    return reply, None


def _objects(holder: Any, field: str) -> list[dict[str, Any]]:
    """The objects in a list of an event; a scenario may send events of any form."""
    found = holder.get(field) if isinstance(holder, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
