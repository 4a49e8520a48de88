"""What went wrong at the service, in one sentence with one hint: HTTP errors and errors inside a stream → ModelError.

Pure. The text of the service is kept in `detail`; callers must take the key out of it before it is shown.
"""

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from gemcode.agent.errors import ExitCode, ModelError
from gemcode.agent.messages import JsonObject
from gemcode.frozen import frozen
from gemcode.gemini import catalog

KEY_PAGE = "https://aistudio.google.com/apikey"
_WAIT_TEXT = re.compile(r"retry in ([0-9.]+)\s*(ms|s)\b", re.IGNORECASE)
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)s")
_TOO_LONG = re.compile(r"input token count \((\d+)\) exceeds the maximum number of tokens allowed \((\d+)\)")
_PER_DAY = re.compile(r"per ?day|daily", re.IGNORECASE)
_PER_MINUTE = re.compile(r"per ?minute", re.IGNORECASE)
_NO_QUOTA = re.compile(r"limit: 0\b")
_CODES = {  # for an error that tells its status only
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
_ENDPOINT_HINT = "Check the network, the proxy and GOOGLE_GEMINI_BASE_URL."


@frozen
class ServiceError:
    """The service's error envelope, read with care: any field may be missing or of the wrong type."""

    code: int
    status: str
    message: str
    details: tuple[JsonObject, ...]
    raw: str

    @classmethod
    def of_json(cls, value: object, code: int = 0) -> "ServiceError | None":
        """Accepts `{"error": …}` and the one-element list of it."""
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        error = value.get("error") if isinstance(value, dict) else None
        if not isinstance(error, dict):
            return None
        details, status = error.get("details"), str(error.get("status") or "")
        told = error["code"] if isinstance(error.get("code"), int) else 0
        return cls(
            code=code or told or _CODES.get(status, 0),
            status=status,
            message=str(error.get("message") or "").strip(),
            details=tuple(d for d in details if isinstance(d, dict)) if isinstance(details, list) else (),
            raw=json.dumps(value, ensure_ascii=False),
        )

    @property
    def reasons(self) -> set[str]:
        return {str(detail.get("reason")) for detail in self.details if detail.get("reason")}

    @property
    def delay(self) -> float | None:
        """Seconds the service asks to wait: RetryInfo, else what its sentence says."""
        for detail in self.details:
            if isinstance(delay := detail.get("retryDelay"), str) and (found := _DURATION.fullmatch(delay)):
                return float(found[1])
        if found := _WAIT_TEXT.search(self.message):
            return _number(found[1]) / (1000 if found[2].lower() == "ms" else 1)
        return None

    @property
    def violations(self) -> list[JsonObject]:
        lists = (detail.get("violations") for detail in self.details)
        return [item for found in lists if isinstance(found, list) for item in found if isinstance(item, dict)]


def from_json(value: object, model: str = "", code: int = 0) -> ModelError | None:
    """The failure that a JSON value tells of; None when it tells of none."""
    error = ServiceError.of_json(value, code)
    return _from_service(error, model) if error else None


def from_response(code: int, body: bytes, model: str, headers: Mapping[str, str] = MappingProxyType({})) -> ModelError:
    """The failure behind a status other than 200. Names of `headers` are in lower case, or case does not matter."""
    text = body.decode("utf-8", errors="replace")
    if 300 <= code < 400:
        location = headers.get("location", "")
        detail = f"HTTP {code}, location: {location}" if location else f"HTTP {code}"
        return ModelError("The server sent a redirect, which is not followed.", _ENDPOINT_HINT, detail=detail)
    try:
        failure = from_json(json.loads(text), model, code)
    except (ValueError, RecursionError):
        failure = None
    if failure is None:
        failure = _from_service(ServiceError(code, "", "", (), f"HTTP {code}: {text[:2000]}"), model)
    if failure.delay is None:
        failure.delay = _retry_after(headers)
    return failure


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the header asks to wait. A date is taken by the server's own clock: ours may be wrong."""
    wanted = headers.get("retry-after", "").strip()
    if wanted.isdecimal() and wanted.isascii():
        return float(wanted[:9])
    from email.utils import parsedate_to_datetime  # seldom needed, and slow to load

    try:
        wait = parsedate_to_datetime(wanted) - parsedate_to_datetime(headers.get("date", ""))
    except (ValueError, TypeError):  # not a date; or one has a time zone and the other none
        return None
    return max(0.0, wait.total_seconds()) or None


def not_gemini(body: str) -> ModelError:
    """A 200 that is no answer of the API: a captive portal, a proxy's page, a wrong address."""
    page = "a web page" if "<html" in body[:2000].lower() or "<!doctype" in body[:2000].lower() else "something else"
    return ModelError(f"The server answered with {page} instead of JSON.", _ENDPOINT_HINT, detail=body[:2000])


def broken_stream(detail: str) -> ModelError:
    return ModelError(
        "The answer was damaged on the way.", "Try again; if it stays, check the proxy.", retryable=True, detail=detail
    )


def _from_service(error: ServiceError, model: str) -> ModelError:
    match error.code:
        case 400:
            return _bad_request(error, model)
        case 401 | 403:
            return _no_permission(error)
        case 404:
            return _not_found(error, model)
        case 413:
            return _too_long(error, "The request is too large for the server.")
        case 429:
            return _quota(error, model)
        case 408 | 499:
            return _failure(error, "The server broke off the request.", "Try again.", retryable=True)
        case 503:
            sentence = f"The model is overloaded{_quoted(error.message)}"
            return _failure(error, sentence, "Try again later, or another model with -m.", retryable=True)
        case 504:
            hint = "Try again, or shorten the conversation: /compact."
            return _failure(error, "The server ran out of time.", hint, retryable=True)
        case code if code >= 500:
            sentence = f"The server failed with error {code}{_quoted(error.message)}"
            return _failure(error, sentence, "Try again in a moment.", retryable=True)
        case _:
            sentence = f"The server answered with status {error.code or error.status}{_quoted(error.message)}"
            return _failure(error, sentence, _ENDPOINT_HINT)


def _bad_request(error: ServiceError, model: str) -> ModelError:
    text = error.message.lower()
    if "API_KEY_INVALID" in error.reasons or "api key not valid" in text or "api key expired" in text:
        state = "has expired" if "expired" in text else "is not valid"
        hint = f"Set GEMINI_API_KEY to a working key; create one at {KEY_PAGE}."
        return _failure(error, f"The API key {state}.", hint, ExitCode.USAGE)
    if error.status == "FAILED_PRECONDITION":
        if "location" in text:
            return _failure(
                error,
                "The Gemini API is not available in your location.",
                "See https://ai.google.dev/gemini-api/docs/available-regions.",
                ExitCode.USAGE,
            )
        hint = "Check the plan and the billing of the project that the key belongs to."
        return _failure(error, f"The API refuses this key's project{_quoted(error.message)}", hint, ExitCode.USAGE)
    if found := _TOO_LONG.search(error.message):
        sentence = f"The conversation is too long: {int(found[1]):,} tokens, and the model takes {int(found[2]):,}."
        return _too_long(error, sentence)
    if "payload size exceeds" in text:
        return _too_long(error, "The request is too large for the API.")
    if "thinking level" in text or "thinking_level" in text or "thinking budget" in text or "thinking mode" in text:
        info = catalog.find(model)
        hint = f"{model} takes: {', '.join(info.thinking_levels)}." if info and info.thinking_levels else ""
        return _failure(error, f"The API refuses the thinking setting{_quoted(error.message)}", hint, ExitCode.USAGE)
    return _failure(error, f"The API refused the request{_quoted(error.message)}", "Run again with -v for the details.")


def _no_permission(error: ServiceError) -> ModelError:
    text = error.message.lower()
    if "unregistered callers" in text:
        hint = f"Set GEMINI_API_KEY; create a key at {KEY_PAGE}."
        return _failure(error, "The request carried no API key.", hint, ExitCode.USAGE)
    if "SERVICE_DISABLED" in error.reasons or "is disabled" in text:
        sentence = "The Gemini API is switched off for the project that the key belongs to."
        return _failure(error, sentence, f"Switch it on, or create a key at {KEY_PAGE}.", ExitCode.USAGE)
    if "leaked" in text:
        sentence = "The API key was reported as leaked and is blocked."
        return _failure(error, sentence, f"Create a new key at {KEY_PAGE}.", ExitCode.USAGE)
    hint = f"Check the key and its restrictions at {KEY_PAGE}."
    return _failure(error, f"The API denies access{_quoted(error.message)}", hint, ExitCode.USAGE)


def _not_found(error: ServiceError, model: str) -> ModelError:
    if not model or (error.message and model.removeprefix("models/") not in error.message):
        return _failure(error, f"The server does not know this{_quoted(error.message)}", _ENDPOINT_HINT, ExitCode.USAGE)
    names: tuple[str, ...] = () if catalog.find(model) else catalog.closest(model)  # itself is no other name for it
    if model.endswith("-latest"):  # aliases that only the beta version of the API knows
        names = (catalog.DEFAULT_MODEL,)
    hint = f"Did you mean {' or '.join(names)}?" if names else "Choose another with -m; see gemcode models."
    return _failure(error, f"There is no model {model} at this API.", hint, ExitCode.USAGE)


def _quota(error: ServiceError, model: str) -> ModelError:
    """Per minute: wait and retry. Per day: over for today. Without details: the service is short of capacity."""
    quotas = [f"{each.get('quotaId', '')} {each.get('quotaMetric', '')}" for each in error.violations]
    # Of several limits that are reached, the one per day decides.
    place = next((i for i, quota in enumerate(quotas) if _PER_DAY.search(quota)), 0)
    violation, quota = (error.violations[place], quotas[place]) if quotas else ({}, error.message)
    limit = f" ({_amount(violation)})" if violation else ""
    if str(violation.get("quotaValue", "")) == "0" or _NO_QUOTA.search(error.message):
        sentence = f"{model or 'This model'} is not part of this key's plan{limit}."
        return _failure(error, sentence, "Choose another model with -m, or enable billing.", ExitCode.QUOTA)
    if _PER_DAY.search(quota):
        hint = "Try again tomorrow, use another model with -m, or raise the limit of your plan."
        return _failure(error, f"The limit per day is used up{limit}.", hint, ExitCode.QUOTA)
    if _PER_MINUTE.search(quota):
        sentence, hint = f"The limit per minute is reached{limit}.", "Wait a moment and try again."
    elif quotas:
        sentence, hint = f"The limit is reached{limit}.", "Wait a moment and try again."
    else:
        sentence, hint = "The API has no capacity left for this request.", "Try again later, or another model with -m."
    return _failure(error, sentence, hint, ExitCode.QUOTA, retryable=True)


def _amount(violation: JsonObject) -> str:
    """A limit in words: "1,000,000 input tokens". The service's own name for it is in the details."""
    quota = f"{violation.get('quotaId', '')} {violation.get('quotaMetric', '')}".lower()
    what = "input tokens" if "token" in quota else "requests"
    value = str(violation.get("quotaValue", ""))
    return f"{int(value):,} {what}" if value.isdecimal() else what


def _failure(
    error: ServiceError,
    sentence: str,
    hint: str,
    exit_code: ExitCode = ExitCode.API_ERROR,
    retryable: bool = False,
) -> ModelError:
    return ModelError(
        sentence, hint, exit_code=exit_code, retryable=retryable, delay=error.delay, detail=error.raw or error.message
    )


def _too_long(error: ServiceError, sentence: str) -> ModelError:
    failure = _failure(error, sentence, "Shorten the conversation with /compact, or start anew with /clear.")
    failure.too_long = True
    return failure


def _quoted(message: str) -> str:
    """`: <the service's first line>.`, short enough for one line, or just the full stop."""
    line = message.split("\n", 1)[0].strip().rstrip(".")
    return f": {line[:300]}." if line else "."


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def mentions_signature(value: Any) -> bool:
    """Whether the service complains about thought signatures: the history must be repaired, not resent."""
    text = str(value).lower()
    return "thought_signature" in text or "thought signature" in text
