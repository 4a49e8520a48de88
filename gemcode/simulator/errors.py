"""The error bodies of the Gemini API, word for word, by name. Pure data: decides nothing about when they are sent."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SERVICE = "generativelanguage.googleapis.com"
KEY_NOT_VALID = "API key not valid. Please pass a valid API key."
KEY_EXPIRED = "API key expired. Please renew the API key."
RATE_LIMITS_PAGE = "https://ai.google.dev/gemini-api/docs/rate-limits"
GENERIC = "Request contains an invalid argument."


class Rejected(Exception):
    """The service's refusal of one request: HTTP code, status word, message and google.rpc details."""

    def __init__(
        self, http_code: int, status: str, message: str, details: Sequence[Mapping[str, Any]] = (), hint: str = ""
    ) -> None:
        super().__init__(message)
        self.http_code = http_code
        self.status = status
        self.message = message
        self.details = list(details)
        self.hint = hint  # for the log of violations only; the real service says no more than `message`

    def body(self) -> dict[str, Any]:
        error: dict[str, Any] = {"code": self.http_code, "message": self.message, "status": self.status}
        if self.details:
            error["details"] = [dict(detail) for detail in self.details]
        return {"error": error}


def invalid_argument(message: str = GENERIC, details: Sequence[Mapping[str, Any]] = (), *, hint: str = "") -> Rejected:
    return Rejected(400, "INVALID_ARGUMENT", message, details, hint)


def bad_request(violations: Sequence[tuple[str, str]]) -> Rejected:
    """Parse errors: one sentence for each (field, sentence), joined by newlines, and repeated as fieldViolations."""
    listed = [{"field": field, "description": text} if field else {"description": text} for field, text in violations]
    detail = {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": listed}
    return invalid_argument("\n".join(text for _, text in violations), [detail])


def invalid_fields(request_name: str, violations: Sequence[tuple[str, str]]) -> Rejected:
    """Validation errors: `* GenerateContentRequest.<field>: <text>` lines, each ended by a newline."""
    return invalid_argument("".join(f"* {request_name}.{field}: {text}\n" for field, text in violations))


def key_rejected(message: str = KEY_NOT_VALID) -> Rejected:
    return invalid_argument(
        message,
        [
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "API_KEY_INVALID",
                "domain": "googleapis.com",
                "metadata": {"service": SERVICE},
            },
            {"@type": "type.googleapis.com/google.rpc.LocalizedMessage", "locale": "en-US", "message": message},
        ],
    )


def key_missing() -> Rejected:
    return Rejected(
        403,
        "PERMISSION_DENIED",
        "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or "
        "other form of API consumer identity to call this API.",
    )


def model_not_found(version: str, model: str, method: str) -> Rejected:
    method = "generateContent" if method == "streamGenerateContent" else method  # streams are answered with this word
    return Rejected(
        404,
        "NOT_FOUND",
        f"models/{model} is not found for API version {version}, or is not supported for {method}. Call "
        "ModelService.ListModels to see the list of available models and their supported methods.",
    )


def cache_not_found() -> Rejected:
    return Rejected(403, "PERMISSION_DENIED", "CachedContent not found (or permission denied)")


def cache_too_small(tokens: int, minimum: int) -> Rejected:
    return invalid_argument(f"Cached content is too small. total_token_count={tokens}, min_total_token_count={minimum}")


@dataclass(frozen=True, slots=True)
class Quota:
    """One exceeded limit of a 429."""

    metric: str
    identifier: str
    limit: int


PER_MINUTE = Quota(
    "generate_content_paid_tier_input_token_count", "GenerateContentPaidTierInputTokensPerModelPerMinute", 1000000
)
PER_DAY = Quota("generate_content_free_tier_requests", "GenerateRequestsPerDayPerProjectPerModel-FreeTier", 250)
NO_FREE_TIER = Quota("generate_content_free_tier_requests", "GenerateRequestsPerDayPerProjectPerModel-FreeTier", 0)


def quota_exceeded(quota: Quota, model: str, retry_seconds: float | None) -> Rejected:
    message = (
        "You exceeded your current quota, please check your plan and billing details. For more information on this "
        f"error, head to: {RATE_LIMITS_PAGE}. To monitor your current usage, head to: https://ai.dev/rate-limit. "
        f"\n* Quota exceeded for metric: {SERVICE}/{quota.metric}, limit: {quota.limit}, model: {model}"
    )
    details: list[dict[str, Any]] = [
        {
            "@type": "type.googleapis.com/google.rpc.Help",
            "links": [{"description": "Learn more about Gemini API quotas", "url": RATE_LIMITS_PAGE}],
        },
        {
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [
                {
                    "quotaMetric": f"{SERVICE}/{quota.metric}",
                    "quotaId": quota.identifier,
                    "quotaDimensions": {"model": model, "location": "global"},
                    "quotaValue": str(quota.limit),
                }
            ],
        },
    ]
    if retry_seconds is not None:
        message += f"\nPlease retry in {retry_seconds:.9f}s."
        delay = f"{retry_seconds:g}s" if retry_seconds < 1 else f"{math.floor(retry_seconds)}s"
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay})
    return Rejected(429, "RESOURCE_EXHAUSTED", message, details)


def _service_disabled() -> Rejected:
    page = f"https://console.developers.google.com/apis/api/{SERVICE}/overview?project=100000000001"
    return Rejected(
        403,
        "PERMISSION_DENIED",
        "Generative Language API has not been used in project 100000000001 before or it is disabled. Enable it by "
        f"visiting {page} then retry. If you enabled this API recently, wait a few minutes for the action to propagate "
        "to our systems and retry.",
        [
            {
                "@type": "type.googleapis.com/google.rpc.Help",
                "links": [{"description": "Google developers console API activation", "url": page}],
            },
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "SERVICE_DISABLED",
                "domain": "googleapis.com",
                "metadata": {"service": SERVICE, "consumer": "projects/100000000001"},
            },
        ],
    )


def _input_too_long(_model: str, _seconds: float) -> Rejected:
    return input_too_long(2551556, 1048576)


def input_too_long(tokens: int, limit: int) -> Rejected:
    return invalid_argument(f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({limit}).")


def payload_too_large(limit: int) -> Rejected:
    return invalid_argument(
        f"Request payload size exceeds the limit: {limit} bytes. The file size is too large. Please use the File API "
        "to upload your files instead. Example: `f = genai.upload_file(path); m.generate_content(['tell me about "
        "this file:', f])`"
    )


def _fixed(http_code: int, status: str, message: str) -> Callable[[str, float], Rejected]:
    return lambda _model, _seconds: Rejected(http_code, status, message)


# Name → what makes the body from the requested model and the seconds of the scenario's `retry_after`.
READY_MADE: Mapping[str, Callable[[str, float], Rejected]] = {
    "key_invalid": lambda _model, _seconds: key_rejected(),
    "key_expired": lambda _model, _seconds: key_rejected(KEY_EXPIRED),
    "key_missing": lambda _model, _seconds: key_missing(),
    "key_leaked": _fixed(403, "PERMISSION_DENIED", "Your API key was reported as leaked. Please use another API key."),
    "service_disabled": lambda _model, _seconds: _service_disabled(),
    "unauthenticated": _fixed(
        401,
        "UNAUTHENTICATED",
        "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid "
        "authentication credential. See https://developers.google.com/identity/sign-in/web/devconsole-project.",
    ),
    "location": _fixed(400, "FAILED_PRECONDITION", "User location is not supported for the API use."),
    "billing": _fixed(
        400,
        "FAILED_PRECONDITION",
        "Gemini API free tier is not available in your country. Please enable billing on your project in Google AI "
        "Studio.",
    ),
    "invalid_argument": _fixed(400, "INVALID_ARGUMENT", GENERIC),
    "input_too_long": _input_too_long,
    "invalid_signature": _fixed(400, "INVALID_ARGUMENT", "Invalid thought signature."),
    "corrupted_signature": _fixed(400, "INVALID_ARGUMENT", "Corrupted thought signature."),
    "not_found": lambda model, _seconds: model_not_found("v1beta", model, "generateContent"),
    "cache_not_found": lambda _model, _seconds: cache_not_found(),
    "quota_per_minute": lambda model, seconds: quota_exceeded(PER_MINUTE, model, seconds),
    "quota_per_day": lambda model, seconds: quota_exceeded(PER_DAY, model, seconds),
    "quota_no_free_tier": lambda model, seconds: quota_exceeded(NO_FREE_TIER, model, seconds),
    "capacity": _fixed(
        429,
        "RESOURCE_EXHAUSTED",
        "Resource exhausted. Please try again later. Please refer to "
        "https://cloud.google.com/vertex-ai/generative-ai/docs/error-code-429 for more details.",
    ),
    "cancelled": _fixed(499, "CANCELLED", "The operation was cancelled."),
    "internal": _fixed(
        500,
        "INTERNAL",
        "An internal error has occurred. Please retry or report in "
        "https://developers.generativeai.google/guide/troubleshooting",
    ),
    "internal_short": _fixed(500, "INTERNAL", "Internal error encountered."),
    "overloaded": _fixed(503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
    "high_demand": _fixed(
        503,
        "UNAVAILABLE",
        "This model is currently experiencing high demand. Spikes in demand are usually temporary. Please try again "
        "later.",
    ),
    "deadline": _fixed(504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete."),
}
