"""How a reply is told, whatever the dialect: which part becomes what, where its signature goes, why it ended. Pure."""

from abc import ABC, abstractmethod
from enum import Enum, auto
from typing import assert_never

from gemcode.agent.messages import Blob, Opaque, Text, Thought, ToolCall
from gemcode.agent.model import Finish, FinishKind
from gemcode.gateway.dialect import (
    SSE_PING,
    SSE_TYPE,
    Asked,
    Ended,
    Envelope,
    FailureKind,
    ReplyEvent,
    Started,
    envelope_kind,
)


class Stop(Enum):
    """Why a reply ended, as far as clients tell it apart."""

    SAID = auto()
    CALLS = auto()
    CUT = auto()
    BLOCKED = auto()


class ReplyEncoder(ABC):
    """The part of an Encoder that all dialects share: theirs is how to say, think, call and sign."""

    content_type = SSE_TYPE
    told_failures: frozenset[FailureKind] = frozenset()

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._spoke = False
        self._called = False

    def feed(self, event: ReplyEvent) -> bytes:
        match event:
            case Started():
                return self._begin(event)
            case Thought():
                frames = self._think(event.text) if event.text else b""
                return frames + (self._sign(event) if event.signature else b"")
            case Text():
                signed = self._sign(event) if event.signature else b""
                return signed + (self._speak(event.text) if event.text else b"")
            case ToolCall():
                self._called = True
                return (self._sign(event) if event.signature else b"") + self._call(event)
            case Blob():
                return self._speak(f"[{event.mime_type}, {len(event.data)} bytes]")
            case Opaque():
                return b""
            case Ended():
                return self._end(event)
            case _:
                assert_never(event)

    def ping(self) -> bytes:
        return SSE_PING

    def _speak(self, text: str) -> bytes:
        self._spoke = True
        return self._say(text)

    def _explain_block(self, finish: Finish) -> bytes:
        """Words for the clients that otherwise take a refusal for one of their own vendor's."""
        if finish.kind is not FinishKind.BLOCKED:
            return b""
        return self._speak(("\n\n" if self._spoke else "") + f"Gemini blocked this answer ({finish.reason}).")

    def _stop(self, finish: Finish) -> Stop:
        if finish.kind is FinishKind.BLOCKED:
            return Stop.BLOCKED
        if self._called:
            return Stop.CALLS
        return Stop.CUT if finish.kind is FinishKind.CUT else Stop.SAID

    def _sealed(self, part: Text | Thought | ToolCall) -> str:
        """The part's signature, as it travels through the client."""
        return Envelope(envelope_kind(part), self._asked.request.model, part.signature or "").seal()

    @abstractmethod
    def _begin(self, started: Started) -> bytes: ...

    @abstractmethod
    def _say(self, text: str) -> bytes: ...

    @abstractmethod
    def _think(self, text: str) -> bytes: ...

    @abstractmethod
    def _call(self, call: ToolCall) -> bytes: ...

    @abstractmethod
    def _sign(self, part: Text | Thought | ToolCall) -> bytes:
        """The signature of a thought just told, or of the part that follows."""

    @abstractmethod
    def _end(self, ended: Ended) -> bytes: ...
