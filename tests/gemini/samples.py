"""Answers to feed: our own shapes, and the recordings of real traffic where they are at hand."""

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemcode.agent.messages import ModelMessage, ModelRequest, ToolDeclaration, ToolMessage, ToolResult, UserMessage

SHAPES = Path(__file__).parent / "shapes"
RECORDINGS = Path(__file__).resolve().parents[3] / "shared" / "recordings"
TOOLS = tuple(ToolDeclaration(name, name, {"type": "object"}) for name in ("read_file", "list_files"))


@dataclass(frozen=True)
class Sample:
    name: str
    model: str
    status: int
    events: list[Any]
    tail: str = ""

    @property
    def request(self) -> ModelRequest:
        return ModelRequest(self.model, (UserMessage.of("Go."),), tools=TOOLS)

    @property
    def received_parts(self) -> list[dict[str, Any]]:
        """All parts of the first candidate, in order, as they came."""
        parts: list[dict[str, Any]] = []
        for event in self.events:
            candidate = (event.get("candidates") or [{}])[0]
            parts += (candidate.get("content") or {}).get("parts") or []
        return parts


def shape_names() -> list[str]:
    return sorted(path.stem for path in SHAPES.glob("*.json"))


def shape(name: str) -> dict[str, Any]:
    return json.loads((SHAPES / f"{name}.json").read_text(encoding="utf-8"))


def samples() -> list[Sample]:
    own = [(name, shape(name)) for name in shape_names()]
    return [Sample(name, each["model"], 200, each["events"]) for name, each in own] + recordings()


def recordings() -> list[Sample]:
    found = []
    for path in sorted(RECORDINGS.glob("*/*.json")):
        recording = json.loads(path.read_text(encoding="utf-8"))
        if "enerateContent" not in str(recording["endpoint"]):
            continue
        events = recording["chunks"] if recording.get("chunks") is not None else [recording["response"]]
        found.append(
            Sample(
                f"{path.parent.name}/{path.stem}",
                recording["model"] or "gemini-3.8-flash",
                recording["status"],
                events,
                recording.get("raw_tail_after_chunks") or "",
            )
        )
    return found


def answered(message: ModelMessage) -> list[UserMessage | ModelMessage | ToolMessage]:
    """A history that holds this message and the results of its calls."""
    results = tuple(ToolResult(call.id, call.name, {"output": "ok"}) for call in message.calls)
    return [UserMessage.of("Go."), message, *([ToolMessage(results)] if results else [])]


def comparable(parts: list[dict[str, Any]]) -> list[Any]:
    """Parts with plain neighbours joined, empty ones left out and signatures decoded: what must survive a replay."""
    result: list[Any] = []
    for part in parts:
        part = dict(part)
        if isinstance(signature := part.get("thoughtSignature"), str):
            part["thoughtSignature"] = decoded(signature)
        if not part or (part.keys() == {"text"} and not part["text"]):
            continue
        plain = part.keys() <= {"text", "thought"} and "text" in part
        if plain and result and result[-1].keys() == part.keys() and result[-1].get("thought") == part.get("thought"):
            result[-1] = {**part, "text": result[-1]["text"] + part["text"]}
        else:
            result.append(part)
    return result


def decoded(signature: str) -> bytes | str:
    """Some recordings hold placeholders that are no base64."""
    try:
        return base64.b64decode(signature, validate=True)
    except ValueError:
        return signature
