"""The loop: ask the model, run its calls, send all results back, until it gives a final text."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from gemcode.agent.errors import GemcodeError, ModelError
from gemcode.agent.events import (
    CallRecord,
    Outcome,
    Sink,
    Status,
    StepFinished,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from gemcode.agent.messages import (
    Generation,
    Message,
    ModelRequest,
    ToolCall,
    ToolChoice,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)
from gemcode.agent.model import FinishKind, Model, ModelReplied
from gemcode.agent.policy import Effect, Mode
from gemcode.agent.registry import Prepared, Refused, StopTurn, ToolRegistry, TurnState, cancelled, subject_of
from gemcode.agent.tool import Approver


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """Where a turn stops by itself."""

    steps: int = 50
    seconds: float | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Persona:
    """Who the model is in this session: the stable prefix of every request."""

    model: str
    system: Callable[[Mode], str]
    generation: Generation = Generation()
    price: Callable[[Usage], float | None] = lambda _: None


@dataclass(slots=True)
class _Turn:
    """The state of one running turn; gone when it ends."""

    emit: Sink
    state: TurnState
    started: float = field(default_factory=time.perf_counter)
    usage: Usage = Usage()
    cost: float | None = 0.0
    steps: int = 0
    answer: str = ""
    finish_reason: str = ""
    calls: list[CallRecord] = field(default_factory=list)

    def outcome(self, status: Status, error: GemcodeError | None = None) -> Outcome:
        if status is Status.OK and self.state.refused:
            status = Status.WRITE_REFUSED
            path, why = next(iter(self.state.refused.items()))
            error = GemcodeError(f"Not written: {path}. {why}", "Allow writes with --approve, or answer y when asked.")
        return Outcome(
            status=status,
            answer=self.answer,
            finish_reason=self.finish_reason,
            usage=self.usage,
            cost_usd=self.cost,
            steps=self.steps,
            calls=tuple(self.calls),
            files_changed=tuple(self.state.changed),
            duration_ms=(time.perf_counter() - self.started) * 1000,
            error=error,
        )


class Agent:
    """One conversation. `history` is valid between turns, whatever happened in them."""

    def __init__(
        self,
        model: Model,
        registry: ToolRegistry,
        persona: Persona,
        approve: Approver,
        limits: TurnLimits = TurnLimits(),
    ) -> None:
        self.model = model
        self.registry = registry
        self.persona = persona
        self.approve = approve
        self.limits = limits
        self.mode = Mode.ASK
        self.history: list[Message] = []

    async def run(self, prompt: UserMessage, emit: Sink, choice: ToolChoice = ToolChoice()) -> Outcome:
        """One turn. Always ends with TurnFinished; raises only CancelledError, after the history was made valid."""
        turn = _Turn(emit, TurnState(self.mode, self.approve))
        before = len(self.history)
        self.history.append(prompt)
        try:
            async with asyncio.timeout(self.limits.seconds):
                outcome = await self._steps(turn, choice)
        except TimeoutError:
            reason = GemcodeError(f"Stopped after {self.limits.seconds:g} s.", "Allow more time with --timeout.")
            outcome = turn.outcome(Status.INCOMPLETE, reason)
        except StopTurn:
            outcome = turn.outcome(Status.INTERRUPTED, GemcodeError("Stopped by you.", "The conversation goes on."))
        except ModelError as error:
            outcome = turn.outcome(Status.of_exit_code(error.exit_code), error)
        except asyncio.CancelledError:
            self._drop_unanswered(before)
            emit(TurnFinished(turn.outcome(Status.INTERRUPTED, GemcodeError("Interrupted."))))
            raise
        self._drop_unanswered(before)
        emit(TurnFinished(outcome))
        return outcome

    async def _steps(self, turn: _Turn, choice: ToolChoice) -> Outcome:
        for step in range(1, self.limits.steps + 1):
            reply = await self._ask(turn, step, choice)
            choice = ToolChoice()  # a forced choice holds for one step, or the turn would never end
            calls = reply.message.calls if reply.finish.kind is FinishKind.COMPLETE else ()
            turn.finish_reason = reply.finish.reason
            if not calls:
                turn.answer = reply.message.text
            turn.emit(StepFinished(step, reply.message.text, not calls, reply.finish, reply.usage))
            if reply.message.parts and reply.finish.kind in (FinishKind.COMPLETE, FinishKind.CUT):
                self.history.append(reply.message)
            if reply.finish.kind is not FinishKind.COMPLETE:
                return turn.outcome(*_unfinished(reply))
            if not calls:
                return turn.outcome(Status.OK)
            await self._answer(turn, calls)
            if self.limits.cost_usd is not None and turn.cost is not None and turn.cost >= self.limits.cost_usd:
                spent = f"Spent ${turn.cost:.4f} of ${self.limits.cost_usd:.2f}."
                return turn.outcome(Status.INCOMPLETE, GemcodeError(spent, "Raise the limit with --max-cost."))
        stopped = GemcodeError(f"Stopped after {self.limits.steps} steps.", "Allow more with --max-steps.")
        return turn.outcome(Status.INCOMPLETE, stopped)

    async def _ask(self, turn: _Turn, step: int, choice: ToolChoice) -> ModelReplied:
        turn.steps = step
        turn.emit(StepStarted(step, self.persona.model))
        request = ModelRequest(
            model=self.persona.model,
            messages=self.history,
            system=self.persona.system(turn.state.mode),
            tools=self.registry.declarations(turn.state.mode),
            tool_choice=choice,
            generation=self.persona.generation,
        )
        async with aclosing(self.model.stream(request)) as events:
            async for event in events:
                if isinstance(event, ModelReplied):
                    turn.usage += event.usage
                    price = self.persona.price(event.usage)
                    turn.cost = None if price is None or turn.cost is None else turn.cost + price
                    return event
                turn.emit(event)
        raise ModelError("The model's answer ended without an end.", "Try again.", retryable=True)

    async def _answer(self, turn: _Turn, calls: Sequence[ToolCall]) -> None:
        """Run the calls and commit one message with a result for each, in call order, also when interrupted."""
        results: dict[str, ToolResult] = {}
        try:
            for group in self._groups(calls):
                await self._run_group(turn, group, results)
        finally:
            results = turn.state.late | results
            self.history.append(ToolMessage(tuple(results.get(call.id) or cancelled(call) for call in calls)))

    def _groups(self, calls: Sequence[ToolCall]) -> Iterator[list[ToolCall]]:
        """Neighbouring reads together, everything else alone."""
        group: list[ToolCall] = []
        for call in calls:
            if self.registry.effect(call.name) is Effect.READ:
                group.append(call)
                continue
            if group:
                yield group
            group = []
            yield [call]
        if group:
            yield group

    async def _run_group(self, turn: _Turn, group: list[ToolCall], results: dict[str, ToolResult]) -> None:
        """Validated and approved in order, run together, reported in order."""
        ready: list[Prepared | Refused] = []
        for call in group:
            turn.emit(ToolStarted(call, subject_of(call)))
            ready.append(await self.registry.prepare(call, turn.state))
        tasks = {
            item.call.id: asyncio.ensure_future(self.registry.run(item, turn.state))
            for item in ready
            if isinstance(item, Prepared)
        }
        try:
            for item in ready:
                result, duration = (item.result, 0.0) if isinstance(item, Refused) else await tasks[item.call.id]
                results[item.call.id] = result
                error = "" if result.ok else result.error_message
                turn.calls.append(CallRecord(item.call.name, item.call.args, result.ok, duration, error))
                turn.emit(ToolFinished(item.call, item.subject, result, duration))
        except asyncio.CancelledError:
            for task in tasks.values():
                task.cancel()
            await asyncio.wait(tasks.values())
            raise

    def _drop_unanswered(self, before: int) -> None:
        """A prompt that got no answer at all does not stay: the person has it, and may send it again."""
        if len(self.history) == before + 1:
            del self.history[before:]


def _unfinished(reply: ModelReplied) -> tuple[Status, GemcodeError]:
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
