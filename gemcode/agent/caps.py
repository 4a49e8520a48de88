"""The last wall against results that are too large for the model. Pure. Tools bound their own results before that."""

import json
from dataclasses import replace

from gemcode.agent.messages import JsonObject, ToolResult


def json_size(value: object) -> int:
    """Bytes of a JSON value on the wire."""
    return len(json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace"))


def result_size(result: ToolResult) -> int:
    """Bytes of a result as the model gets it."""
    return json_size(result.response) + sum(len(blob.data) for blob in result.media)


def capped(result: ToolResult, limit: int) -> ToolResult:
    """The result, or the beginning of it as text where it is larger than `limit` bytes; the cut is said."""
    whole = json_size(result.response)
    if whole <= limit:
        return result
    if not result.ok:
        message = result.error_message.encode("utf-8", "replace")[: limit // 2].decode("utf-8", "ignore")
        return replace(result, response={"error": {"type": result.error_kind[:100], "message": message}})
    output = result.response.get("output")
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, default=str)
    kept = text.encode("utf-8", "replace")[: limit // 2].decode("utf-8", "ignore")
    note = f"This is the beginning only: the result has {whole} bytes. Ask for less at a time."
    response: JsonObject = {"output": kept, "notes": [note]}
    return replace(result, response=response)
