"""A past session as events, turn by turn, for the same listeners as a running one. Nothing is run, nothing is asked."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from gemcode.agent.conversation import together
from gemcode.agent.errors import GemcodeError
from gemcode.agent.events import (
    CallRecord,
    Event,
    FileChanged,
    Notice,
    Outcome,
    Status,
    StepFinished,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from gemcode.agent.messages import ModelMessage, Text, Thought, ToolCall, ToolMessage, Usage, UserMessage
from gemcode.agent.model import Finish, FinishKind, TextDelta, ThoughtDelta
from gemcode.agent.results import subject_of
from gemcode.agent.transcript import (
    AttemptFailed,
    CallEnded,
    Committed,
    Compacted,
    Entry,
    StepTaken,
    TurnEnded,
    Uncompacted,
)
from gemcode.frozen import frozen


@frozen
class PastTurn:
    """What was asked and everything that happened then. The last event is TurnFinished."""

    prompt: UserMessage
    model: str
    events: tuple[Event, ...]

    @property
    def outcome(self) -> Outcome:
        last = self.events[-1]
        assert isinstance(last, TurnFinished)
        return last.outcome


def replay(entries: Iterable[Entry]) -> Iterator[PastTurn]:
    """All turns, also those whose prompt was withdrawn. One that a crash ended is told as interrupted."""
    turn: _Turn | None = None
    for entry in entries:
        if isinstance(entry, Committed) and isinstance(entry.message, UserMessage):
            if turn is not None:
                yield turn.finished(None)
            turn = _Turn(entry.message)
        elif turn is not None:
            if isinstance(entry, TurnEnded):
                yield turn.finished(entry)
                turn = None
            else:
                turn.add(entry)
    if turn is not None:
        yield turn.finished(None)


@dataclass(slots=True)
class _Turn:
    prompt: UserMessage
    events: list[Event] = field(default_factory=list)
    model: str = ""
    step: StepTaken | None = None
    steps: int = 0
    answer: str = ""
    usage: Usage = Usage()
    step_usage: Usage = Usage()  # since the last answer
    cost: float | None = 0.0
    calls: list[ToolCall] = field(default_factory=list)
    ended: dict[str, CallEnded] = field(default_factory=dict)
    records: list[CallRecord] = field(default_factory=list)
    changed: list[FileChanged] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        match entry:
            case StepTaken():
                self.model = entry.model
                self.step = entry
                self.steps += 1
                self._pay(entry)
            case AttemptFailed():
                self._pay(entry)
            case Committed(message=ModelMessage() as message):
                self._add_answer(message)
            case Committed(message=ToolMessage() as message):
                self._add_results(message)
            case CallEnded():
                self.ended[entry.call_id] = entry
            case FileChanged():
                self.changed.append(entry)
            case Compacted():
                self.events.append(Notice(entry.sentence()))
            case Uncompacted():
                self.events.append(Notice("The compaction was undone."))
            case _:
                pass

    def _pay(self, entry: StepTaken | AttemptFailed) -> None:
        self.usage += entry.usage
        self.step_usage += entry.usage
        self.cost = together(self.cost, entry.cost_usd)

    def _add_answer(self, message: ModelMessage) -> None:
        taken = self.step or StepTaken(self.model, Usage(), None, "", 0.0)
        self.calls, self.ended = list(message.calls), {}
        self.answer = "" if message.calls else message.text
        self.events.append(StepStarted(self.steps, taken.model))
        for part in message.parts:
            if isinstance(part, Text | Thought) and part.text:
                self.events.append(TextDelta(part.text) if isinstance(part, Text) else ThoughtDelta(part.text))
        finish = Finish(_kind(taken.finish_kind), taken.finish_reason)
        self.events.append(StepFinished(self.steps, message.text, not message.calls, finish, self.step_usage))
        self.step_usage = Usage()

    def _add_results(self, message: ToolMessage) -> None:
        for call, result in zip(self.calls, message.results, strict=False):
            ended = self.ended.get(call.id)
            subject = ended.subject if ended else subject_of(call)
            duration = ended.duration_ms if ended else 0.0
            shown = replace(result, display=ended.said if ended and ended.said else None)
            kind, error = ("", "") if result.ok else (result.error_kind, result.error_message)
            writes = ended.writes if ended else False
            self.records.append(CallRecord(call.name, call.args, result.ok, duration, error, kind, subject, writes))
            self.events += [ToolStarted(call, subject), ToolFinished(call, subject, shown, duration)]

    def finished(self, ended: TurnEnded | None) -> PastTurn:
        error = GemcodeError("gemcode was ended in the middle of this turn.")
        if ended is not None:
            error = GemcodeError(ended.error, ended.hint)
        outcome = Outcome(
            status=Status(ended.status) if ended and ended.status in set(Status) else Status.INTERRUPTED,
            answer=self.answer,
            finish_reason=ended.finish_reason if ended else "",
            usage=self.usage,
            cost_usd=self.cost,
            steps=ended.steps if ended else self.steps,
            calls=tuple(self.records),
            files_changed=tuple(self.changed),
            duration_ms=ended.duration_ms if ended else 0.0,
            error=error if error.message else None,
        )
        return PastTurn(self.prompt, self.model, (*self.events, TurnFinished(outcome)))


def _kind(name: str) -> FinishKind:
    return FinishKind(name) if name in set(FinishKind) else FinishKind.OTHER
