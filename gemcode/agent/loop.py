"""The loop: ask the model, run its calls, send all results back, until it gives a final text."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing

from gemcode.agent import compaction
from gemcode.agent.caps import result_size
from gemcode.agent.compaction import ContextReport, Window
from gemcode.agent.conversation import ConversationState, together
from gemcode.agent.counters import Counters
from gemcode.agent.errors import GemcodeError, ModelError
from gemcode.agent.events import (
    CallRecord,
    Notice,
    Outcome,
    Sink,
    Status,
    StepFinished,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from gemcode.agent.loops import Loop, with_note
from gemcode.agent.messages import (
    Message,
    ModelRequest,
    ToolCall,
    ToolChoice,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)
from gemcode.agent.model import FinishKind, Metered, Model, ModelReplied, Retrying, StepEvent, TextDelta, ThoughtDelta
from gemcode.agent.persona import Persona, TurnLimits
from gemcode.agent.policy import Effect, Mode
from gemcode.agent.registry import Prepared, Refused, StopTurn, ToolRegistry, TurnState
from gemcode.agent.results import cancelled, subject_of
from gemcode.agent.tool import Approver
from gemcode.agent.transcript import (
    AttemptFailed,
    CallEnded,
    Committed,
    Compacted,
    Entry,
    Journal,
    StepTaken,
    TurnEnded,
    Uncompacted,
    Withdrawn,
    forget,
)
from gemcode.agent.turn import Turn, endless, milliseconds_since, overspent, unfinished

GoOn = Callable[[str], Awaitable[bool]]


async def stop_unasked(_: str) -> bool:
    """Nobody is there to be asked whether to go on, so the answer is no."""
    return False


class Agent:
    """One conversation. `history` is valid between turns, whatever happened in them.

    `journal` is told of everything at the moment it happens; `go_on` is asked before a turn is stopped by a limit.
    """

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
        self.go_on: GoOn = stop_unasked
        self.fallback: Persona | None = None  # who goes on when the model can't be reached; the person's own choice
        self.counters = Counters()
        self.state = ConversationState()
        self.journal: Journal = forget
        self.spent: float | None = 0.0  # USD since the program was started; None: a price was not known
        self._may_compact = True  # not again before the window was seen to be less than full

    @property
    def history(self) -> list[Message]:
        return self.state.history

    @history.setter
    def history(self, messages: list[Message]) -> None:
        self.state.history = messages

    def begin(self, state: ConversationState, journal: Journal = forget) -> None:
        """Go on with another conversation: a resumed one, or an empty one."""
        self.state, self.journal = state, journal
        self.counters = Counters()
        self._may_compact = True

    async def run(self, prompt: UserMessage, emit: Sink, choice: ToolChoice = ToolChoice()) -> Outcome:
        """One turn. Always ends with TurnFinished; raises only CancelledError, after the history was made valid."""
        turn = Turn(emit, TurnState(self.mode, self.approve))
        self._record(Committed(prompt), emit)
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
            self._end(turn, prompt, turn.outcome(Status.INTERRUPTED, GemcodeError("Interrupted.")))
            raise
        self._end(turn, prompt, outcome)
        return outcome

    def _end(self, turn: Turn, prompt: UserMessage, outcome: Outcome) -> None:
        """Close the books. A prompt that got no answer does not stay: the person has it, and may send it again."""
        if self.history and self.history[-1] is prompt:
            self._record(Withdrawn(), turn.emit)
        error = outcome.error
        told = (error.message, error.hint) if error else ("", "")
        ended = TurnEnded(outcome.status.value, outcome.steps, outcome.duration_ms, outcome.finish_reason, *told)
        self._record(ended, turn.emit)
        turn.emit(TurnFinished(outcome))

    def _record(self, entry: Entry, emit: Sink) -> None:
        self.state.add(entry)
        try:
            self.journal(entry)
        except OSError as error:
            self.journal = forget
            why = error.strerror or str(error)
            emit(Notice(f"The session can't be saved any more: {why}. The conversation itself goes on.", warning=True))

    async def _steps(self, turn: Turn, choice: ToolChoice) -> Outcome:
        step, allowed = 0, self.limits.steps
        if self.limits.cost_usd is not None and self.state.turns == 1 and self.persona.price(Usage()) is None:
            text = f"The price of {self.persona.model} is not known: --max-cost can't stop it."
            turn.emit(Notice(text, warning=True))
        while True:
            step += 1
            turn.step_usage = Usage()
            reply = await self._ask_or_compact(turn, step, choice)
            choice = ToolChoice()  # a forced choice holds for one step, or the turn would never end
            calls = reply.message.calls if reply.finish.kind is FinishKind.COMPLETE else ()
            turn.finish_reason = reply.finish.reason
            if not calls:
                turn.answer = reply.message.text
            if reply.message.parts and reply.finish.kind in (FinishKind.COMPLETE, FinishKind.CUT):
                self._record(Committed(reply.message), turn.emit)  # kept before it is shown
            turn.emit(StepFinished(step, reply.message.text, not calls, reply.finish, turn.step_usage))
            if reply.finish.kind is not FinishKind.COMPLETE:
                return turn.outcome(*unfinished(reply))
            if not calls:
                return turn.outcome(Status.OK)
            loop = await self._answer(turn, calls)
            if loop and loop.told and (stopped := await self._ask_about(turn, loop)) is not None:
                return turn.outcome(Status.INCOMPLETE, stopped)
            if step >= allowed:
                sentence = f"Stopped after {step} steps."
                if not await self.go_on(sentence):
                    return turn.outcome(Status.INCOMPLETE, GemcodeError(sentence, "Allow more with --max-steps."))
                allowed += self.limits.steps

    async def _ask_about(self, turn: Turn, loop: Loop) -> GemcodeError | None:
        """The model was told that it goes round in circles and went on: a person decides. None: go on."""
        sentence = loop.sentence(subject_of(loop.calls[-1]))
        if await self.go_on(sentence):
            turn.watch.forgive()
            return None
        return GemcodeError(sentence, "Say what to do differently, or ask for less at a time.")

    async def _ask_or_compact(self, turn: Turn, step: int, choice: ToolChoice) -> ModelReplied:
        """One step, with room made for it where the window is full, or the service says so."""
        share = self.limits.compact_at
        if share is not None and self._may_compact and self.window.is_full(share):
            try:
                await self._compact(turn.emit, open_turn=True, turn=turn)
            except GemcodeError as error:
                turn.emit(Notice(f"Not compacted: {error.message}", warning=True))
        try:
            return await self._ask(turn, step, choice)
        except ModelError as error:
            if error.retryable and self._fall_back(turn, error):
                return await self._ask(turn, step, choice)
            if not error.too_long or not self._may_compact or share is None:
                raise
            turn.emit(Notice(error.message, warning=True))
            try:
                await self._compact(turn.emit, open_turn=True, turn=turn)
            except GemcodeError:
                raise error from None
        return await self._ask(turn, step, choice)

    def _fall_back(self, turn: Turn, error: ModelError) -> bool:
        """Go on with the other model that the person named, for the rest of the session. What was streamed is void."""
        if self.fallback is None:
            return False
        self.persona, self.fallback = self.fallback, None
        turn.emit(Retrying(f"{error.message} Going on with {self.persona.model} (--fallback-model).", 0.0, 1, 2))
        return True

    async def _ask(self, turn: Turn, step: int, choice: ToolChoice) -> ModelReplied:
        turn.emit(StepStarted(step, self.persona.model))
        request = self._request(turn.state.mode, choice)
        received = 0
        async with aclosing(self._stream(request, turn.emit, turn)) as events:
            async for event in events:
                if isinstance(event, ModelReplied):
                    turn.steps = step
                    return event
                if isinstance(event, TextDelta | ThoughtDelta):
                    received += len(event.text)
                    if received > self.limits.text_bytes:
                        raise endless(self.limits.text_bytes)
                else:
                    received = 0  # another attempt: what came so far is void
                turn.emit(event)
        raise ModelError("The model's answer ended without an end.", "Try again.", retryable=True)

    async def _stream(self, request: ModelRequest, emit: Sink, turn: Turn | None) -> AsyncGenerator[StepEvent, None]:
        """The model's answer, as long as there is money for it. All of it is booked, also what failed or was ended."""
        used, started = Usage(), time.perf_counter()
        self._check_spent()
        try:
            async with aclosing(self.model.stream(request)) as events:
                async for event in events:
                    if isinstance(event, Metered):
                        used = event.usage
                        continue
                    if isinstance(event, Retrying):
                        self._book_failed(used, emit, turn)
                        used = Usage()
                        self._check_spent()
                    elif isinstance(event, ModelReplied):
                        self._book(event, milliseconds_since(started), emit, turn)
                        used = Usage()
                    yield event
        finally:
            self._book_failed(used, emit, turn)

    def _check_spent(self) -> None:
        limit, spent = self.limits.cost_usd, self.spent
        if limit is not None and spent is not None and spent >= limit:
            raise overspent(spent, limit)

    def _request(self, mode: Mode, choice: ToolChoice = ToolChoice()) -> ModelRequest:
        return ModelRequest(
            model=self.persona.model,
            messages=self.history,
            system=self.persona.system(mode),
            tools=self.registry.declarations(mode),
            tool_choice=choice,
            generation=self.persona.generation,
        )

    def _book(self, reply: ModelReplied, duration_ms: float, emit: Sink, turn: Turn | None) -> None:
        """What a step cost, for the turn and for the session."""
        price = self._pay(reply.usage, turn)
        finish = reply.finish
        taken = StepTaken(self.persona.model, reply.usage, price, finish.reason, duration_ms, finish.kind.value)
        self._record(taken, emit)
        share = self.limits.compact_at
        self._may_compact = self._may_compact or (share is not None and not self.window.is_full(share))

    def _book_failed(self, used: Usage, emit: Sink, turn: Turn | None) -> None:
        if used != Usage():
            self._record(AttemptFailed(self.persona.model, used, self._pay(used, turn)), emit)

    def _pay(self, used: Usage, turn: Turn | None) -> float | None:
        price = self.persona.price(used)
        self.spent = together(self.spent, price)
        if turn is not None:
            turn.pay(used, price)
        return price

    async def _answer(self, turn: Turn, calls: Sequence[ToolCall]) -> Loop | None:
        """Run the calls and commit one message with a result for each, in call order, also when interrupted."""
        results: dict[str, ToolResult] = {}
        loop = None
        try:
            for group in self._groups(calls):
                await self._run_group(turn, group, results)
            loop = turn.watch.see(calls, [results[call.id] for call in calls])
        finally:
            results = turn.state.late | results
            message = ToolMessage(tuple(results.get(call.id) or cancelled(call) for call in calls))
            self._record_changes(turn)
            self._record(Committed(with_note(message, loop.note()) if loop else message), turn.emit)
        if loop and not loop.told:
            sentence = loop.sentence(subject_of(loop.calls[-1]))
            turn.emit(Notice(f"{sentence} The model was told.", warning=True))
        return loop

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

    async def _run_group(self, turn: Turn, group: list[ToolCall], results: dict[str, ToolResult]) -> None:
        """Validated and approved in order, run together, reported in order."""
        ready = await self.registry.prepare_together(
            group, turn.state, lambda call: turn.emit(ToolStarted(call, subject_of(call)))
        )
        tasks = self.registry.start((item for item in ready if isinstance(item, Prepared)), turn.state)
        try:
            for item in ready:
                result, duration = (item.result, 0.0) if isinstance(item, Refused) else await tasks[item.call.id]
                results[item.call.id] = result
                self._report(turn, item, result, duration)
        except asyncio.CancelledError:
            for task in tasks.values():
                task.cancel()
            await asyncio.wait(tasks.values())
            raise

    def _report(self, turn: Turn, item: Prepared | Refused, result: ToolResult, duration: float) -> None:
        """Tell of a call that has its result: the person, the journal, the counters, the outcome."""
        call = item.call
        writes = self.registry.effect(call.name) is Effect.WRITE
        kind, error = ("", "") if result.ok else (result.error_kind, result.error_message)
        turn.calls.append(CallRecord(call.name, call.args, result.ok, duration, error, kind, item.subject, writes))
        said = result.display if isinstance(result.display, str) else ""
        length = result_size(result)
        ended = CallEnded(call.id, call.name, item.subject, result.ok, kind, duration, length, writes, said)
        self.counters.add(ended)
        self._record_changes(turn)
        self._record(ended, turn.emit)
        turn.emit(ToolFinished(call, item.subject, result, duration))

    def _record_changes(self, turn: Turn) -> None:
        for change in turn.state.changed[turn.recorded :]:
            self._record(change, turn.emit)
        turn.recorded = len(turn.state.changed)

    @property
    def window(self) -> Window:
        """How full the model's window is, as far as we know."""
        return Window(self.state.prompt_tokens, self.persona.input_limit)

    def context(self) -> ContextReport:
        """What fills the window."""
        return compaction.report(self._request(self.mode), self.window, summarised=self.state.summaries > 0)

    async def compact(self, emit: Sink = lambda _: None) -> Compacted:
        """Sum up the older conversation now, between two turns. Raises GemcodeError; then nothing has changed."""
        return await self._compact(emit, open_turn=False)

    async def _compact(self, emit: Sink, *, open_turn: bool, turn: Turn | None = None) -> Compacted:
        base = self._request(turn.state.mode if turn else self.mode)
        done = await compaction.compact(
            lambda request: self._stream(request, emit, turn),
            base,
            self.state,
            self.window,
            open_turn=open_turn,
            told=emit,
        )
        self._record(done, emit)
        self._may_compact = False
        emit(Notice(done.sentence()))
        return done

    def undo_compaction(self) -> bool:
        """Bring back what the last compaction replaced. False: there is none to undo."""
        if self.state.replaced is None:
            return False
        self._record(Uncompacted(), lambda _: None)
        return True
