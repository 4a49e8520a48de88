"""One running turn: what it has used, said and called so far, and the outcome it comes to. The loop drives it."""

import time
from dataclasses import dataclass, field

from gemcode.agent.conversation import together
from gemcode.agent.errors import ExitCode, GemcodeError, ModelError
from gemcode.agent.events import CallRecord, Outcome, Sink, Status
from gemcode.agent.loops import LoopWatch
from gemcode.agent.messages import Usage
from gemcode.agent.model import FinishKind, ModelReplied
from gemcode.agent.registry import TurnState


@dataclass(slots=True)
class Turn:
    """The state of one running turn; gone when it ends."""

    emit: Sink
    state: TurnState
    watch: LoopWatch = field(default_factory=LoopWatch)
    started: float = field(default_factory=time.perf_counter)
    usage: Usage = Usage()
    step_usage: Usage = Usage()  # of the step under way, with all that was needed for it
    cost: float | None = 0.0
    steps: int = 0
    answer: str = ""
    finish_reason: str = ""
    calls: list[CallRecord] = field(default_factory=list)
    recorded: int = 0  # how many of state.changed are in the journal

    def pay(self, used: Usage, price: float | None) -> None:
        self.usage += used
        self.step_usage += used
        self.cost = together(self.cost, price)

    def outcome(self, status: Status, error: GemcodeError | None = None) -> Outcome:
        if status is Status.OK and self.state.refused:
            status = Status.WRITE_REFUSED
            path, why = next(iter(self.state.refused.items()))
            why = f"{why[:1].upper()}{why[1:].removesuffix('.')}."
            hint = "Answer y when asked, or allow it: --approve edits (ordinary files) or all."
            error = GemcodeError(f"Not written: {path}. {why}", hint)
        return Outcome(
            status=status,
            answer=self.answer,
            finish_reason=self.finish_reason,
            usage=self.usage,
            cost_usd=self.cost,
            steps=self.steps,
            calls=tuple(self.calls),
            files_changed=tuple(self.state.changed),
            duration_ms=milliseconds_since(self.started),
            error=error,
        )


def overspent(spent: float, limit: float) -> ModelError:
    message = f"Spent {_money(spent)} of {_money(limit)} (--max-cost)."
    more = _money(2 * limit or 1.0).removeprefix("$")
    return ModelError(
        message, f"Raise it: /cost {more} in chat, else --max-cost {more}.", exit_code=ExitCode.INCOMPLETE
    )


def _money(dollars: float) -> str:
    return f"${dollars:.2f}" if dollars >= 0.01 or not dollars else f"${dollars:.4f}"


def endless(limit: int) -> ModelError:
    message = f"The answer did not end within {limit} bytes; it was broken off."
    return ModelError(message, "Ask for less at a time.", exit_code=ExitCode.INCOMPLETE)


def milliseconds_since(started: float) -> float:
    return (time.perf_counter() - started) * 1000


def unfinished(reply: ModelReplied) -> tuple[Status, GemcodeError]:
    """What to tell about an answer that is not complete."""
    finish = reply.finish
    said = f" ({finish.reason})" if finish.reason else ""
    detail = f" {finish.message}" if finish.message else ""
    match finish.kind:
        case FinishKind.BLOCKED:
            return Status.BLOCKED, GemcodeError(f"The answer was blocked{said}.{detail}", "Rephrase the prompt.")
        case FinishKind.CUT:
            message = f"The answer was cut at the output limit{said}."
            return Status.INCOMPLETE, GemcodeError(message, 'Say "go on" to continue.')
        case FinishKind.MALFORMED:
            message = f"The model made a call that is not valid{said}.{detail}"
            return Status.INCOMPLETE, GemcodeError(message, "Nothing was run. Try again, or rephrase.")
        case FinishKind.EMPTY:
            message = "The model gave no answer." if finish.reason else "The answer ended without a finish reason."
            return Status.INCOMPLETE, GemcodeError(message, "Try again.")
        case _:
            message = f"The answer ended early{said}.{detail}"
            return Status.INCOMPLETE, GemcodeError(message, "Try again, or rephrase.")
