"""Errors as the OpenAI endpoints tell them, for Responses and for Chat Completions. Pure."""

from gemcode.agent.messages import JsonObject
from gemcode.gateway.dialect import ErrorReply, Failure, FailureKind

# kind → HTTP status, type, code. `server_is_overloaded` is avoided: Codex gives up on it.
_ERRORS: dict[FailureKind, tuple[int, str, str | None]] = {
    FailureKind.INVALID: (400, "invalid_request_error", None),
    FailureKind.OVERFLOW: (400, "invalid_request_error", "context_length_exceeded"),
    FailureKind.UNAUTHENTICATED: (401, "invalid_request_error", "invalid_api_key"),
    FailureKind.FORBIDDEN: (403, "invalid_request_error", "permission_denied"),
    FailureKind.NOT_FOUND: (404, "invalid_request_error", "not_found"),
    FailureKind.TOO_LARGE: (413, "invalid_request_error", "request_too_large"),
    FailureKind.RATE_LIMITED: (429, "rate_limit_error", "rate_limit_exceeded"),
    FailureKind.SERVER: (500, "server_error", "server_error"),
    FailureKind.MALFORMED: (500, "server_error", "server_error"),
    FailureKind.OVERLOADED: (503, "server_error", "server_error"),
}


def error_object(failure: Failure) -> JsonObject:
    _, kind, code = _ERRORS[failure.kind]
    return {"message": failure.message, "type": kind, "param": failure.param or None, "code": failure.code or code}


def error_reply(failure: Failure) -> ErrorReply:
    return ErrorReply(_ERRORS[failure.kind][0], {"error": error_object(failure)}, failure.headers)
