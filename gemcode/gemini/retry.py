"""What is tried again, how, and after how long. Pure decisions; persistent.py carries them out."""

from dataclasses import replace
from enum import StrEnum

from gemcode.agent.errors import ExitCode, ModelError
from gemcode.agent.messages import ModelRequest, UserMessage
from gemcode.agent.model import Finish, FinishKind, ModelReplied
from gemcode.frozen import frozen
from gemcode.gemini import failures, wire

_NUDGE = (
    "Your last function call was not valid, so it was not run. "
    "Call only functions that are declared, with JSON arguments that fit their schema."
)
_REPHRASE = "Your last answer was withheld because it repeated published text. Say it in your own words."

# Ends that another try will not change.
_FINAL_REASONS = frozenset({"TOO_MANY_TOOL_CALLS", "NO_IMAGE", "IMAGE_OTHER", "ESCALATION", "PUP_LIMITED_DISABLED"})


@frozen
class RetryPolicy:
    """Where trying again ends."""

    attempts: int = 5  # after errors, the first one included
    weak_retries: int = 3  # after answers without use: empty, malformed, no finish reason
    total_wait: float = 120.0
    first_wait: float = 1.0
    longest_wait: float = 32.0

    def backoff(self, attempt: int, draw: float) -> float:
        """Exponential with full jitter; `draw` is random, between 0 and 1."""
        return draw * min(self.longest_wait, self.first_wait * 2.0 ** (attempt - 1))


class Remedy(StrEnum):
    """What is changed in the request before it is sent again."""

    NONE = "none"
    NUDGE = "nudge"
    REPHRASE = "rephrase"
    UNSIGN = "unsign"


@frozen
class Progress:
    """What this step has been through so far."""

    failed: int = 0
    weak: int = 0
    waited: float = 0.0
    remedies: frozenset[Remedy] = frozenset()

    def after(self, again: "Again") -> "Progress":
        return Progress(
            self.failed + 1, self.weak + again.weak, self.waited + again.delay, self.remedies | {again.remedy}
        )


@frozen
class Again:
    """Try again: why, when, how often at most, and with which change."""

    reason: str
    delay: float
    attempts: int
    remedy: Remedy = Remedy.NONE
    weak: bool = False


def after_error(error: ModelError, progress: Progress, policy: RetryPolicy, draw: float) -> Again:
    """What follows an error. Raises it, or a clearer one, when nothing does."""
    attempt = progress.failed + 1
    if failures.mentions_signature(error.detail) and Remedy.UNSIGN not in progress.remedies and not error.retryable:
        return Again("The API refuses a signature of the conversation.", 0.0, attempt + 1, Remedy.UNSIGN)
    if not error.retryable or attempt >= policy.attempts:
        raise error
    delay = policy.backoff(attempt, draw) if error.delay is None else error.delay
    if progress.waited + delay > policy.total_wait:
        raise _too_long(error, delay, policy) if error.delay is not None else error
    return Again(error.message, delay, policy.attempts)


def after_reply(reply: ModelReplied, progress: Progress, policy: RetryPolicy, draw: float) -> Again | None:
    """What follows an answer: None when it stands, good or bad."""
    finish = reply.finish
    again: Again | None = None
    if finish.reason == "MISSING_THOUGHT_SIGNATURE":
        again = Again("The API misses a signature in the conversation.", 0.0, progress.failed + 2, Remedy.UNSIGN)
    elif finish.reason == "RECITATION":
        again = Again("The answer repeated published text.", 0.0, progress.failed + 2, Remedy.REPHRASE)
    if again is not None:
        return None if again.remedy in progress.remedies else again
    reason = _weakness(reply)
    if reason is None or progress.weak >= policy.weak_retries:
        return None
    delay = policy.backoff(progress.weak + 1, draw)
    remedy = Remedy.NUDGE if finish.kind is FinishKind.MALFORMED else Remedy.NONE
    return Again(reason, delay, policy.weak_retries + 1, remedy, weak=True)


def remedied(request: ModelRequest, remedies: frozenset[Remedy], finish: Finish | None) -> ModelRequest:
    """The request to send next, always made from the first one. `finish` is how the last answer ended."""
    if Remedy.UNSIGN in remedies:
        request = wire.without_signatures(request)
    hints = []
    if Remedy.NUDGE in remedies and finish is not None and finish.kind is FinishKind.MALFORMED:
        hints.append(f"{_NUDGE} {finish.message[:500]}".strip())
    if Remedy.REPHRASE in remedies:
        hints.append(_REPHRASE)
    if not hints:
        return request
    return replace(request, messages=(*request.messages, UserMessage.of(" ".join(hints))))


def _weakness(reply: ModelReplied) -> str | None:
    finish = reply.finish
    match finish.kind:
        case FinishKind.MALFORMED:
            return f"The model made a call that is not valid ({finish.reason})."
        case FinishKind.EMPTY:
            return "The answer was empty." if finish.reason else "The answer ended without a finish reason."
        case FinishKind.OTHER if not reply.message.text.strip() and finish.reason not in _FINAL_REASONS:
            return f"The model gave up ({finish.reason})."
        case _:
            return None


def _too_long(error: ModelError, delay: float, policy: RetryPolicy) -> ModelError:
    return ModelError(
        f"{error.message} The API asks to wait {delay:.0f} s, longer than the {policy.total_wait:.0f} s allowed.",
        "Try again later, or use another model with -m.",
        exit_code=ExitCode.QUOTA,
        delay=delay,
        detail=error.detail,
    )
