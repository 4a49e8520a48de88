"""Traffic with the service → a scenario that the simulator plays back, secrets taken out: a bug report in one file.

It only listens. What it keeps is what was answered; each request is noted beside its answer, for the reader.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from gemcode.agent.errors import UsageError
from gemcode.agent.redaction import MASK, names_secret, redact
from gemcode.gemini.settings import Broken, Received, Refused, Sent, Traffic

JsonObject: TypeAlias = dict[str, Any]

_OPAQUE = ("thoughtSignature", "continuationToken")  # the service's own; without them nothing can be played back
_HEADERS = ("retry-after", "location")


class Recorder:
    """Give it to the client as `observe`; call `save` at the end. The file is made at once, not to fail late."""

    def __init__(self, path: Path, redact: Callable[[str], str], home: str = "") -> None:
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            raise UsageError(f"{path} exists already.", "Name a new file for --record.") from None
        except OSError as error:
            raise UsageError(f"{path} can't be written: {error.strerror}.", "Name another file for --record.") from None
        self._redact = redact
        self._home = home.rstrip(os.sep)
        self._model = ""
        self._last: JsonObject = {}
        self._replies: list[JsonObject] = []

    def __call__(self, traffic: Traffic) -> None:
        if isinstance(traffic, Sent):
            self._model = self._model or traffic.model
            body = json.loads(traffic.body or b"{}")
            self._replies.append({"request": _news(self._last, body), "raw_events": []})
            self._last = body
            return
        reply = self._replies[-1] if self._replies else {}
        match traffic:
            case Received():
                reply["raw_events"].append(traffic.event)
            case Refused():
                reply.pop("raw_events", None)
                reply["http_error"] = _http_error(traffic)
            case Broken() if "http_error" not in reply:
                reply["fault"] = {"kind": "cut", "after": len(reply.get("raw_events", ()))}

    def scenario(self) -> JsonObject:
        """What was recorded so far. Signatures are the real service's, so they are not checked in a playback."""
        replies = [self._clean(reply) for reply in self._replies]
        return {"schema": 1, "model": self._model or None, "strict": False, "replies": replies}

    def save(self) -> None:
        """Write the file and close it."""
        with os.fdopen(self._descriptor, "w", encoding="utf-8") as file:
            file.write(json.dumps(self.scenario(), indent=1) + "\n")

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            text = redact(self._redact(value))
            return text.replace(self._home, "~") if self._home else text
        if isinstance(value, dict):
            return {self._clean(key): self._clean_field(key, item) for key, item in value.items()}
        return [self._clean(item) for item in value] if isinstance(value, list) else value

    def _clean_field(self, name: str, value: Any) -> Any:
        if name in _OPAQUE:
            return value
        return MASK if isinstance(value, str) and names_secret(name) else self._clean(value)


def _news(before: JsonObject, body: JsonObject) -> JsonObject:
    """What a request adds to the one before it: a conversation is sent again and again, and only grows."""
    old, new = before.get("contents", []), body.get("contents", [])
    rest = {key: value for key, value in body.items() if key != "contents"}
    if before and new[: len(old)] == old and rest == {key: before[key] for key in before if key != "contents"}:
        return {"contents_as_before": len(old), "contents": new[len(old) :]}
    return body


def _http_error(refused: Refused) -> JsonObject:
    text = refused.body.decode("utf-8", "replace")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = text
    headers = {name: value for name, value in refused.headers.items() if name.lower() in _HEADERS}
    return {"status": refused.status, "body": body, "headers": headers}
