"""The Gemini dialect itself: what goes through is not translated. Pure; the bytes are moved in routes.py."""

import re
from typing import Any
from urllib.parse import parse_qsl, urlencode

from gemcode.agent.messages import JsonObject
from gemcode.gateway.dialect import ErrorReply, Failure, FailureKind, as_list, as_object

ACTIONS = ("generateContent", "streamGenerateContent", "countTokens")
_PATH = re.compile(r"(?P<model>[A-Za-z0-9][\w.-]*):(?P<action>[A-Za-z]+)", re.ASCII)
_ERRORS = {
    FailureKind.INVALID: (400, "INVALID_ARGUMENT"),
    FailureKind.OVERFLOW: (400, "INVALID_ARGUMENT"),
    FailureKind.UNAUTHENTICATED: (401, "UNAUTHENTICATED"),
    FailureKind.FORBIDDEN: (403, "PERMISSION_DENIED"),
    FailureKind.NOT_FOUND: (404, "NOT_FOUND"),
    FailureKind.TOO_LARGE: (413, "INVALID_ARGUMENT"),
    FailureKind.RATE_LIMITED: (429, "RESOURCE_EXHAUSTED"),
    FailureKind.SERVER: (500, "INTERNAL"),
    FailureKind.MALFORMED: (500, "INTERNAL"),
    FailureKind.OVERLOADED: (503, "UNAVAILABLE"),
}
# What a body for /v1/gemini may hold beside the fields of the service.
_OWN_FIELDS = frozenset({"model", "stream", "conversation", "functionDeclarations", "function_declarations"})


class NativeDialect:
    name = "gemini"

    def error(self, failure: Failure) -> ErrorReply:
        code, status = _ERRORS[failure.kind]
        return ErrorReply(code, {"error": {"code": code, "message": failure.message, "status": status}})


def split_path(path: str) -> tuple[str, str]:
    """`NAME:action` → both. Raises Failure for what is not passed through."""
    found = _PATH.fullmatch(path)
    if found is None or found["action"] not in ACTIONS:
        raise Failure(FailureKind.NOT_FOUND, f"Only {', '.join(ACTIONS)} are served under models.")
    return found["model"], found["action"]


def forwarded_query(query: str) -> str:
    """The query without the client's key: upstream gets the gateway's."""
    return urlencode([(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name != "key"])


def conversation_id(body: JsonObject) -> str | None:
    """The name of a stored conversation, as a string or as {id}. A list is the conversation itself."""
    value = body.get("conversation")
    value = value.get("id") if isinstance(value, dict) else value
    if isinstance(value, str) and value:
        return value
    if value is None or isinstance(value, list):
        return None
    raise Failure.invalid("conversation", "must be an id or the contents themselves")


def own_contents(body: JsonObject) -> list[Any]:
    """The new contents of the request: `contents`, else a conversation given as a list. Text alone is the user's."""
    value = body.get("contents")
    if value is None and isinstance(body.get("conversation"), list):
        value = body["conversation"]
    if isinstance(value, str):
        return [{"role": "user", "parts": [{"text": value}]}]
    return [value] if isinstance(value, dict) else as_list(value, "contents")


def prepare(body: JsonObject, earlier: list[JsonObject]) -> JsonObject:
    """A body for generateContent: declarations moved into `tools`, earlier contents put before the new ones."""
    request = {key: value for key, value in body.items() if key not in _OWN_FIELDS}
    declarations = body.get("functionDeclarations", body.get("function_declarations"))
    if declarations is not None:
        listed = [as_object(item, "functionDeclarations") for item in as_list(declarations, "functionDeclarations")]
        request["tools"] = [*as_list(body.get("tools"), "tools"), {"functionDeclarations": listed}]
    request["contents"] = [*earlier, *own_contents(body)]
    return request


def model_content(events: list[object]) -> JsonObject | None:
    """The model's content out of all events of a reply, for the stored conversation; None without any part."""
    parts: list[JsonObject] = []
    for event in events:
        candidates = event.get("candidates") if isinstance(event, dict) else None
        candidate = candidates[0] if isinstance(candidates, list) and candidates else {}
        content = candidate.get("content") if isinstance(candidate, dict) else None
        found = content.get("parts") if isinstance(content, dict) else None
        for part in found if isinstance(found, list) else ():
            if parts and set(part) == {"text"} and set(parts[-1]) == {"text"}:
                parts[-1] = {"text": parts[-1]["text"] + part["text"]}
            elif isinstance(part, dict) and part:
                parts.append(part)
    return {"role": "model", "parts": parts} if parts else None
