"""The scenario file: replies in order, or chosen by what the request holds. Parsed strictly; see docs/simulator.md."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gemcode.simulator.errors import READY_MADE, Rejected
from gemcode.simulator.reply import (
    JSON_TYPE,
    Call,
    Fault,
    FaultKind,
    HttpError,
    RecordedRequest,
    Reply,
    ScenarioExhausted,
    Step,
    Text,
    Thought,
)

Seconds = Annotated[float, Field(ge=0, le=3600)]
HttpStatus = Annotated[int, Field(ge=200, le=599)]
_PLAINER = re.compile(r"a valid dictionary(?: or instance of \w+)?")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


class ScenarioError(Exception):
    """A scenario file that can't be used: one sentence with the place of the wrong field."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class CallSpec(_Strict):
    """One function call of a reply."""

    name: str
    args: dict[str, Any] = {}
    id: str | None = None
    signature: str | None = None


class ErrorSpec(_Strict):
    """A reply that is not a 200: the name of a ready-made error, an error object, or any status with any body."""

    name: str | None = None
    retry_after: Seconds = 30.0  # what a ready-made 429 announces
    code: HttpStatus | None = None
    status: HttpStatus | str | None = None  # the HTTP status as a number, or the status word of an error object
    message: str = ""
    details: list[dict[str, Any]] = []
    body: Any = None  # instead of an error object: any JSON value, or a string that is sent as it is
    headers: dict[str, str] = {}

    @model_validator(mode="after")
    def _one_way(self) -> "ErrorSpec":
        if self.name is not None:
            _check_name(self.name)
        elif self.code is None and not isinstance(self.status, int):
            raise ValueError("needs a name, a code, or a status that is a number")
        if not all(_HEADER_NAME.fullmatch(name) and _fits_header(value) for name, value in self.headers.items()):
            raise ValueError("headers must be of plain ASCII, on one line each")
        return self

    def as_reply_error(self) -> HttpError | str:
        if self.name is not None:
            return self.name
        status = self.status if isinstance(self.status, int) else self.code or 500
        if self.body is not None:
            kind = "text/html; charset=UTF-8" if isinstance(self.body, str) else JSON_TYPE
            return HttpError(status, self.body, self.headers, kind)
        word = self.status if isinstance(self.status, str) else ""
        rejected = Rejected(self.code or status, word, self.message, self.details)
        return HttpError(status, rejected.body(), self.headers)


def _fits_header(value: str) -> bool:
    return value.isascii() and (value.isprintable() or not value)


def _check_name(name: str) -> None:
    if name not in READY_MADE:
        raise ValueError(f"no ready-made error is called {name!r}; there are {', '.join(READY_MADE)}")


class FaultSpec(_Strict):
    """A break of the transport after some good events."""

    kind: FaultKind
    after: Annotated[int, Field(ge=0)] = 0
    seconds: Seconds = 0.0
    text: str = ""
    error: str = "high_demand"
    location: str = ""
    size: Annotated[int, Field(ge=0, le=1 << 28)] = 1 << 20

    @model_validator(mode="after")
    def _complete(self) -> "FaultSpec":
        _check_name(self.error)
        if self.kind == "redirect" and not self.location:
            raise ValueError("a redirect needs a location")
        if not _fits_header(self.location):
            raise ValueError("a location must be of plain ASCII, on one line")
        return self


class ReplySpec(_Strict):
    """One reply. `match` makes it answer any request that holds the text; otherwise replies are used in order."""

    request: Any = None  # what a recorded reply answered, for the reader only
    match: str | None = None
    repeat: Annotated[int, Field(ge=1)] | Literal["forever"] = 1
    thoughts: str | list[str] = []
    text: str | list[str] = []
    calls: list[CallSpec] = []
    finish: str | None = "STOP"
    finish_message: str | None = None
    blocked: str | None = None
    usage: dict[str, Any] | None = None
    delay_first: Seconds = 0.0
    delay_between: Seconds = 0.0
    raw_events: list[Any] | None = None
    http_error: ErrorSpec | None = None
    fault: FaultSpec | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> "ReplySpec":
        steps = bool(self.thoughts or self.text or self.calls)
        if sum((steps, self.raw_events is not None, self.http_error is not None, self.blocked is not None)) > 1:
            raise ValueError("text, thoughts and calls, raw_events, http_error and blocked exclude each other")
        if self.http_error is not None and self.fault is not None:
            raise ValueError("http_error and fault exclude each other")
        return self

    def as_reply(self) -> Reply:
        steps: list[Step] = [Thought(text) for text in _listed(self.thoughts)]
        steps += [Text(text) for text in _listed(self.text)]
        steps += [Call(call.name, call.args, call.id, call.signature) for call in self.calls]
        return Reply(
            steps=tuple(steps),
            finish=self.finish,
            finish_message=self.finish_message,
            blocked=self.blocked,
            usage=self.usage,
            delay_first=self.delay_first,
            delay_between=self.delay_between,
            raw_events=self.raw_events,
            error=self.http_error.as_reply_error() if self.http_error else None,
            retry_after=self.http_error.retry_after if self.http_error else 30.0,
            fault=Fault(**self.fault.model_dump()) if self.fault else None,
        )


class Scenario(_Strict):
    """A whole file. `strict` rejects thought signatures that the simulator has not issued."""

    schema_version: Literal[1] = Field(alias="schema")
    model: str | None = None  # the model it was written for; served even if the simulator does not know it
    strict: bool = True
    replies: list[ReplySpec]


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def parse_scenario(data: Mapping[str, Any]) -> Scenario:
    """Checks a scenario that is already JSON. Raises ScenarioError."""
    try:
        return Scenario.model_validate(data)
    except ValidationError as error:
        raise ScenarioError(_sentence(error, data)) from None


def _sentence(error: ValidationError, data: Mapping[str, Any]) -> str:
    """The first mistake. Where a field takes several kinds, it says all of them, or where the nearest one is wrong."""
    found = [(_place(each, data), _PLAINER.sub("an object", each["msg"])) for each in error.errors()]
    place = max((place for place, _ in found if place.startswith(found[0][0])), key=len)
    first, *others = dict.fromkeys(message for where, message in found if where == place)
    message = " or ".join([first, *(other.removeprefix("Input should be ") for other in others)])
    return f"{place or 'the scenario'}: {message.removeprefix('Value error, ')}."


def _place(error: Mapping[str, Any], data: Any) -> str:
    """As `replies[0].text`: only names that the file has or lacks, not those of the kinds that were tried."""
    place = ""
    for key in error["loc"]:
        if isinstance(data, list) and isinstance(key, int):
            place, data = f"{place}[{key}]", data[key]
        elif isinstance(data, Mapping) and (key in data or error["type"] == "missing"):
            place, data = f"{place}.{key}", data.get(key)
    return place.lstrip(".")


def load_scenario(path: Path) -> Scenario:
    """Reads a scenario file. Raises ScenarioError, also for a file that is missing or no JSON."""
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise ScenarioError(f"{path} can't be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise ScenarioError(f"{path} is not JSON: {error}.") from None
    if not isinstance(data, dict):
        raise ScenarioError(f"{path} must hold one JSON object.")
    try:
        return parse_scenario(data)
    except ScenarioError as error:
        raise ScenarioError(f"{path}: {error}") from None


class ScenarioBrain:
    """Answers from a scenario: the first unused reply whose `match` fits, else the next unused one without a match."""

    def __init__(self, scenario: Scenario) -> None:
        self._replies = [(spec, spec.as_reply()) for spec in scenario.replies]
        self._uses = [0] * len(self._replies)

    def answer(self, request: RecordedRequest) -> Reply:
        found = self._find(request, matching=True)
        if found is None:
            found = self._find(request, matching=False)
        if found is None:
            raise ScenarioExhausted(
                f"The scenario has no reply left for request {request.number} "
                f"(last user text: {request.last_text[:80]!r}, {len(self._replies)} replies in the file)."
            )
        self._uses[found] += 1
        return self._replies[found][1]

    def _find(self, request: RecordedRequest, *, matching: bool) -> int | None:
        for index, (spec, _) in enumerate(self._replies):
            unused = spec.repeat == "forever" or self._uses[index] < spec.repeat
            if unused and (_fits(spec.match, request) if matching else spec.match is None):
                return index
        return None


def _fits(match: str | None, request: RecordedRequest) -> bool:
    if match is None:
        return False
    return match in request.last_text or any(match == result.get("name") for result in request.results)
