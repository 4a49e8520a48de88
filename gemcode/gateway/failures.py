"""What Gemini's errors mean to a client: service errors and broken connections → Failure. Pure."""

import json
import re

from gemcode.agent.errors import ModelError
from gemcode.gateway.dialect import Failure, FailureKind, overflow
from gemcode.gemini.failures import ServiceError

_TOO_LONG = re.compile(r"input token count \((\d+)\) exceeds the maximum number of tokens allowed \((\d+)\)")
_SCHEMA_TEXT = re.compile(
    r"function_declarations|functionDeclarations|parameters_json_schema|parametersJsonSchema|too many states"
    r"|nesting depth|schema",
    re.IGNORECASE,
)
_NAME_PROBLEM = re.compile(r"Invalid function name|Duplicate function|allowed_function_names", re.IGNORECASE)
_KINDS = {
    401: FailureKind.UNAUTHENTICATED,
    403: FailureKind.FORBIDDEN,
    404: FailureKind.NOT_FOUND,
    413: FailureKind.TOO_LARGE,
    429: FailureKind.RATE_LIMITED,
    503: FailureKind.OVERLOADED,
}


def from_service(error: ServiceError, max_tokens: int | None) -> Failure:
    """The service's own words, sorted by what the client can do about them."""
    if error.code == 400:
        return _bad_request(error, max_tokens)
    kind = _KINDS.get(error.code, FailureKind.SERVER if not 400 <= error.code < 500 else FailureKind.INVALID)
    if error.code in (408, 499):
        kind = FailureKind.SERVER
    message = error.message or f"Gemini answered with HTTP {error.code}."
    quota = " ".join(str(violation.get("quotaId", "")) for violation in error.violations).lower()
    if kind is FailureKind.RATE_LIMITED and ("perday" in quota or "daily" in quota):
        # A wait of seconds would not help: no retry-after, so that clients say it instead of looping.
        return Failure(kind, f"The daily quota of the gateway's Gemini key is used up. {message}")
    delay = error.delay
    if kind is FailureKind.OVERLOADED and delay is None:
        delay = 5.0
    return Failure(kind, message, retry_after=delay)


def _bad_request(error: ServiceError, max_tokens: int | None) -> Failure:
    if found := _TOO_LONG.search(error.message):
        return overflow(int(found[1]), int(found[2]), max_tokens)
    if "payload size exceeds" in error.message:
        return Failure(FailureKind.TOO_LARGE, error.message)
    if "API_KEY_INVALID" in error.reasons or "api key" in error.message.lower():
        return Failure(FailureKind.UNAUTHENTICATED, f"The gateway's Gemini API key was refused: {error.message}")
    if error.status == "FAILED_PRECONDITION":
        return Failure(FailureKind.FORBIDDEN, error.message)
    return Failure(FailureKind.INVALID, error.message or "Gemini refused the request.")


def from_body(status: int, body: bytes, max_tokens: int | None) -> Failure:
    """A status other than 200. A body that is no JSON (a proxy's page) is not passed on."""
    try:
        error = ServiceError.of_json(json.loads(body), status)
    except (ValueError, RecursionError):
        error = None
    if error is None:
        error = ServiceError(status, "", f"Gemini answered with HTTP {status}.", (), "")
    return from_service(error, max_tokens)


def from_error(error: ModelError) -> Failure:
    """The connection failed, or brought something that is no answer."""
    return Failure(FailureKind.SERVER, error.message)


def refuses_schema(message: str) -> bool:
    """Whether a simpler schema may pass where this one did not."""
    return bool(_SCHEMA_TEXT.search(message)) and not _NAME_PROBLEM.search(message)
