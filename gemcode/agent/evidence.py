"""What the audit log keeps of a call: what was asked and what came of it, bounded, without contents and keys.

Pure. How the records are chained and stored is audit.py's part.
"""

import hashlib
import json
from typing import Any

from gemcode.agent.messages import ToolCall, ToolResult
from gemcode.agent.policy import Effect
from gemcode.agent.redaction import redact

LONGEST_VALUE = 256  # longer strings are recorded as their hash and size
LONGEST_ARGUMENTS = 16 * 1024  # in JSON; more than that is recorded as one hash and size
_CONTENTS = frozenset({"content", "old", "new"})  # arguments that hold a user's text: by hash and size, however short

Record = dict[str, Any]


def of_intent(call: ToolCall, effect: Effect) -> Record:
    return {"event": "intent", "tool": _short(call.name), "effect": effect.value, "args": _arguments(call.args)}


def of_outcome(call: ToolCall, decision: str, result: ToolResult) -> Record:
    record: Record = {"event": "outcome", "tool": _short(call.name), "decision": decision}
    record |= {"ok": result.ok, "result": _what_came_of(result)}
    if not result.ok:
        record |= {"error": _short(result.error_kind), "message": _short(result.error_message)}
        error = result.response["error"]
        if isinstance(error, dict) and isinstance(error.get("errno"), int):
            record["errno"] = error["errno"]
    return record


def canonical(record: Record) -> bytes:
    return json.dumps(record, ensure_ascii=True, sort_keys=True, separators=(",", ":"), default=repr).encode("ascii")


def _arguments(arguments: Record) -> Any:
    """A call's arguments as they are recorded: bounded, whatever the model sent."""
    try:
        value = _digest(arguments)
        text = canonical(value)
    except RecursionError:
        return "nested too deeply to be recorded"
    return value if len(text) <= LONGEST_ARGUMENTS else _as_hash(text)


def _digest(value: Any, name: str = "") -> Any:
    """The value with contents and every long string replaced by hash and size: they are evidence, not cargo. A short
    string is kept, without what looks like a key. `name` is the argument that holds the value."""
    if isinstance(value, str):
        data = value.encode("utf-8", "surrogatepass")
        return _as_hash(data) if name in _CONTENTS or len(data) > LONGEST_VALUE else redact(value)
    if isinstance(value, dict):
        return {redact(str(key)): _digest(item, str(key)) for key, item in value.items()}
    return [_digest(item, name) for item in value] if isinstance(value, list | tuple) else value


def _as_hash(data: bytes) -> Record:
    return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def _short(text: str) -> str:
    return redact(text)[:LONGEST_VALUE]


def _what_came_of(result: ToolResult) -> str:
    """done, failed or unknown. A write may be done although it was reported as an error, and the other way round."""
    said = result.response.get("output" if result.ok else "error")
    details = said if isinstance(said, dict) else {}
    if details.get("durability") == "unknown" or result.error_kind == "timeout":
        return "unknown"
    return "done" if result.ok or details.get("written") is True else "failed"
