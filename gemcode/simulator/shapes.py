"""Turns a Reply into the events (or the one unary body) that a model of that generation would send. Pure but for
random ids and signatures."""

import base64
import os
import random
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gemcode.simulator.catalog import ALIASES, KnownModel
from gemcode.simulator.reply import Call, Pause, Reply, Text, Thought
from gemcode.simulator.signatures import canonical_json, issue_signature
from gemcode.simulator.usage import count_text

CALLS_MESSAGE = "Model generated function call(s)."
KEEPS_CONTENT = frozenset({"STOP", "MAX_TOKENS", "CONTINUATION"})  # other reasons end with no content at all


@dataclass(frozen=True, slots=True)
class Turn:
    """What the shape depends on besides the reply."""

    model: KnownModel
    stream: bool
    has_tools: bool = False
    wants_thoughts: bool = False
    prompt_tokens: int = 0
    cached_tokens: int = 0
    continuation_token: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One JSON value to send, after a pause."""

    body: Any
    pause: float = 0.0


@dataclass(slots=True)
class _Piece:
    """One part on its way out, with what it adds to the counters."""

    part: dict[str, Any]
    pause: float = 0.0
    candidates: int = 0
    thoughts: int = 0
    hidden: bool = False


def shape(reply: Reply, turn: Turn) -> list[Event]:
    """The events of a stream; for a unary turn a list of one."""
    if reply.raw_events is not None:
        events = [Event(body) for body in reply.raw_events]
        return events if turn.stream else events[:1]
    response = _Response(reply, turn)
    if reply.blocked:
        feedback = {"promptFeedback": {"blockReason": reply.blocked}}
        return [Event(response.wrap(None, feedback, last=True))]
    pieces = _signed(list(_pieces(reply, turn)), turn)
    return _stream(pieces, response) if turn.stream else _unary(pieces, response)


def _pieces(reply: Reply, turn: Turn) -> Iterator[_Piece]:
    pause = 0.0
    for step in reply.steps:
        if isinstance(step, Pause):
            pause += step.seconds
            continue
        piece = _piece(step, turn)
        piece.pause, pause = pause, 0.0
        yield piece


def _piece(step: Text | Thought | Call, turn: Turn) -> _Piece:
    match step:
        case Text(text):
            return _Piece({"text": text}, candidates=count_text(text))
        case Thought(text):
            return _Piece({"text": text, "thought": True}, thoughts=count_text(text), hidden=not turn.wants_thoughts)
        case Call():
            call: dict[str, Any] = {"name": step.name, "args": dict(step.args)}
            if step.id is not None or turn.model.gives_call_ids:
                call["id"] = step.id if step.id is not None else _call_id()
            part: dict[str, Any] = {"functionCall": call}
            if step.signature is not None:
                part["thoughtSignature"] = step.signature
            return _Piece(part, candidates=count_text(canonical_json(call)))


def _signed(pieces: list[_Piece], turn: Turn) -> list[_Piece]:
    """Generation 3 signs the first call of a step; 2.5 signs the first part, and only with tools declared."""
    shown = [piece for piece in pieces if "thought" not in piece.part]
    if turn.model.needs_signatures:
        shown = [piece for piece in shown if "functionCall" in piece.part]
    elif turn.model.generation < (2, 5) or not turn.has_tools:
        shown = []
    if shown and "thoughtSignature" not in shown[0].part:
        shown[0].part["thoughtSignature"] = _signature(shown[0].part, turn)
    return pieces


def _signature(part: Mapping[str, Any], turn: Turn) -> str:
    call = part.get("functionCall")
    return issue_signature(turn.model.name, (call["name"], call["args"]) if call else None)


def _stream(pieces: list[_Piece], response: "_Response") -> list[Event]:
    reply, turn = response.reply, response.turn
    groups = _groups(pieces, turn)
    closes_apart = turn.model.needs_signatures or reply.finish not in KEEPS_CONTENT or not _shown(groups[-1:])
    events: list[Event] = []
    for index, group in enumerate(groups):
        for piece in group:
            response.count(piece)
        if parts := [piece.part for piece in group if not piece.hidden]:
            last = index == len(groups) - 1 and (reply.finish is None or not closes_apart)
            pause = sum(piece.pause for piece in group)
            events.append(Event(response.candidate({"content": _content(parts)}, last=last), pause))
    if reply.finish is not None and closes_apart:
        events.append(Event(response.candidate(_closing(_shown(groups), response), last=True)))
    return events


def _groups(pieces: list[_Piece], turn: Turn) -> list[list[_Piece]]:
    """Which parts share an event: one each, but 2.5 sends all its calls together. Hidden thoughts go with the next."""
    groups: list[list[_Piece]] = []
    for piece in pieces:
        joins = bool(groups) and (
            groups[-1][-1].hidden or (not turn.model.needs_signatures and _is_call(piece) and _is_call(groups[-1][-1]))
        )
        if joins:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return groups


def _shown(groups: list[list[_Piece]]) -> list[_Piece]:
    return [piece for group in groups for piece in group if not piece.hidden]


def _closing(shown: list[_Piece], response: "_Response") -> dict[str, Any]:
    """A last event of its own: an empty text, which generation 3 signs if the reply made no call."""
    if response.reply.finish not in KEEPS_CONTENT:
        return {}
    if not shown:
        return {"content": {"role": "model"}}
    part: dict[str, Any] = {"text": ""}
    if response.turn.model.needs_signatures and not any(_is_call(piece) for piece in shown):
        part["thoughtSignature"] = _signature(part, response.turn)
    return {"content": _content([part])}


def _unary(pieces: list[_Piece], response: "_Response") -> list[Event]:
    reply, turn = response.reply, response.turn
    parts: list[dict[str, Any]] = []
    for piece in pieces:
        response.count(piece)
        if piece.hidden:
            continue
        if parts and _mergeable(parts[-1], piece.part):
            parts[-1]["text"] += piece.part["text"]
        else:
            parts.append(piece.part)
    if turn.model.needs_signatures and parts and all("functionCall" not in part for part in parts):
        parts[-1]["thoughtSignature"] = _signature(parts[-1], turn)
    candidate: dict[str, Any] = {}
    if parts or reply.finish in KEEPS_CONTENT or reply.finish is None:
        candidate["content"] = _content(parts) if parts else {"role": "model"}
    return [Event(response.candidate(candidate, last=True), sum(piece.pause for piece in pieces))]


def _mergeable(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> bool:
    plain = {"text", "thought", "thoughtSignature"}
    return (
        "text" in earlier
        and "text" in later
        and earlier.keys() | later.keys() <= plain
        and earlier.get("thought") == later.get("thought")
        and "thoughtSignature" not in later
    )


def _is_call(piece: _Piece) -> bool:
    return "functionCall" in piece.part


def _content(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {"parts": parts, "role": "model"}


class _Response:
    """The envelope of one reply: the same ids in each event, and counters that run."""

    def __init__(self, reply: Reply, turn: Turn) -> None:
        self.reply = reply
        self.turn = turn
        self.candidates = 0
        self.thoughts = 0
        self.makes_calls = any(isinstance(step, Call) for step in reply.steps)
        self.identifier = base64.urlsafe_b64encode(os.urandom(17)).decode().rstrip("=")

    def count(self, piece: _Piece) -> None:
        self.candidates += piece.candidates
        self.thoughts += piece.thoughts

    def candidate(self, candidate: dict[str, Any], *, last: bool) -> dict[str, Any]:
        if last and self.reply.finish is not None:
            candidate["finishReason"] = self.reply.finish
            message = self.reply.finish_message
            if message is None and self.makes_calls and self.reply.finish == "STOP":
                message = CALLS_MESSAGE
            if message is not None:
                candidate["finishMessage"] = message
            if self.turn.continuation_token is not None:
                candidate["continuationToken"] = self.turn.continuation_token
        return self.wrap({**candidate, "index": 0}, {}, last=last)

    def wrap(self, candidate: dict[str, Any] | None, extra: Mapping[str, Any], *, last: bool) -> dict[str, Any]:
        body: dict[str, Any] = {} if candidate is None else {"candidates": [candidate]}
        name = self.turn.model.name
        return {
            **body,
            **extra,
            "usageMetadata": self._usage(last=last),
            "modelVersion": ALIASES.get(name, name),
            "responseId": self.identifier,
        }

    def _usage(self, *, last: bool) -> dict[str, Any]:
        turn = self.turn
        counters: dict[str, Any] = {
            "promptTokenCount": turn.prompt_tokens,
            "cachedContentTokenCount": turn.cached_tokens,
            "candidatesTokenCount": self.candidates,
            "thoughtsTokenCount": self.thoughts,
            "totalTokenCount": turn.prompt_tokens + self.candidates + self.thoughts,
        }
        if last and self.reply.usage is not None:
            counters |= self.reply.usage
        usage = {name: value for name, value in counters.items() if value not in (0, None)}
        if "promptTokenCount" in usage:
            details = [{"modality": "TEXT", "tokenCount": usage["promptTokenCount"]}]
            usage.setdefault("promptTokensDetails", details)
        return usage | {"serviceTier": "standard"}


def _call_id() -> str:
    return "".join(random.choices(string.ascii_lowercase + string.digits, k=8))
