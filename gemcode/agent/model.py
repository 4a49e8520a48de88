"""What the loop asks of a model: one streamed step. Implemented by gemini/, and by scripts in tests."""

from collections.abc import AsyncGenerator
from enum import StrEnum
from typing import Protocol, TypeAlias

from gemcode.agent.messages import ModelMessage, ModelRequest, Usage
from gemcode.frozen import frozen


class FinishKind(StrEnum):
    """What the end of a step means for the turn, whatever the service calls it."""

    COMPLETE = "complete"  # a final text, or calls to run
    CUT = "cut"  # the output limit was reached
    BLOCKED = "blocked"  # safety, recitation, prohibited content, language, blocked prompt
    MALFORMED = "malformed"  # a call that is not one, or to an undeclared tool: never run
    EMPTY = "empty"  # neither text nor call, or no finish reason at all
    OTHER = "other"  # anything else, also reasons not yet known


@frozen
class Finish:
    kind: FinishKind
    reason: str  # as the service says it: STOP, MAX_TOKENS, SAFETY…; "" when it said none
    message: str = ""


@frozen
class TextDelta:
    text: str


@frozen
class ThoughtDelta:
    text: str


@frozen
class Retrying:
    """This attempt failed and another follows after `delay` seconds. All text of the step so far is void."""

    reason: str
    delay: float
    attempt: int  # the one that failed, from 1
    attempts: int


@frozen
class Metered:
    """What this attempt has used so far, as the service counts: to be paid for, whatever becomes of the attempt."""

    usage: Usage


@frozen
class ModelReplied:
    """The step is complete. Always the last event of a stream that does not raise ModelError.

    `usage` is of this attempt alone, and was told as Metered before.
    """

    message: ModelMessage
    finish: Finish
    usage: Usage = Usage()


StepEvent: TypeAlias = TextDelta | ThoughtDelta | Retrying | ModelReplied
ModelEvent: TypeAlias = StepEvent | Metered


class Model(Protocol):
    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the step as it comes. Raises ModelError. Closing the generator ends the request at the server."""
        ...
