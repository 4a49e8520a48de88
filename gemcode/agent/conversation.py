"""A session's entries folded into where it stands: the history to go on with, and what was spent and changed. Pure.

The running conversation and one that is loaded from a file are the same fold, so they can't differ.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gemcode.agent.events import FileChanged
from gemcode.agent.messages import Message, ModelMessage, Text, ToolCall, ToolMessage, ToolResult, Usage, UserMessage
from gemcode.agent.transcript import (
    AttemptFailed,
    CallEnded,
    Committed,
    Compacted,
    Entry,
    StepTaken,
    Titled,
    Uncompacted,
    Withdrawn,
)
from gemcode.frozen import frozen

TITLE_LENGTH = 80


@frozen
class Replaced:
    """How things stood before a compaction, and how long the history was right after it."""

    history: list[Message]
    length: int
    prompt_tokens: int
    summaries: int


@dataclass(slots=True)
class ConversationState:
    """Where a session stands. `words` are the prompts as typed, also those that a compaction took out of `history`."""

    history: list[Message] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    changed: list[FileChanged] = field(default_factory=list)
    usage: Usage = Usage()
    cost_usd: float | None = 0.0  # None: a price was not known
    steps: int = 0
    model: str = ""
    name: str = ""  # given by the person
    prompt_tokens: int = 0  # of the last request and its answer, as the service counted; estimated after a compaction
    summaries: int = 0  # compactions that stand: with any, the history begins with a summary
    ended: dict[str, CallEnded] = field(default_factory=dict)  # calls of the last step whose result is not yet kept
    replaced: Replaced | None = None  # what the last compaction can be undone with

    @property
    def turns(self) -> int:
        return len(self.words)

    @property
    def title(self) -> str:
        return self.name or (title_of(self.words[0]) if self.words else "")

    def add(self, entry: Entry) -> None:
        match entry:
            case Committed():
                self.history.append(entry.message)
                self.ended.clear()
                if isinstance(entry.message, UserMessage):
                    self.words.append(own_words(entry.message))
            case Withdrawn():
                self._withdraw()
            case StepTaken():
                self.steps += 1
                self.prompt_tokens = entry.usage.prompt + entry.usage.output
                self.model = entry.model
                self._pay(entry)
            case AttemptFailed():
                self._pay(entry)
            case CallEnded():
                self.ended[entry.call_id] = entry
            case FileChanged():
                self.changed.append(entry)
            case Compacted():
                self.replaced = Replaced(self.history, len(entry.messages), self.prompt_tokens, self.summaries)
                self.history = list(entry.messages)
                self.prompt_tokens = entry.after
                self.summaries += entry.turns > 0
            case Uncompacted():
                self._uncompact()
            case Titled():
                self.name = entry.title
            case _:
                pass

    def _pay(self, entry: StepTaken | AttemptFailed) -> None:
        self.usage += entry.usage
        self.cost_usd = together(self.cost_usd, entry.cost_usd)

    def _withdraw(self) -> None:
        if not (self.history and isinstance(self.history[-1], UserMessage) and self.words):
            return
        self.history.pop()
        self.words.pop()
        if self.replaced is not None and len(self.history) < self.replaced.length:  # compacted while it waited
            earlier = self.replaced
            self.replaced = replace(earlier, history=earlier.history[:-1], length=earlier.length - 1)

    def _uncompact(self) -> None:
        if self.replaced is not None:
            self.history = self.replaced.history + self.history[self.replaced.length :]
            self.prompt_tokens = max(self.prompt_tokens, self.replaced.prompt_tokens)
            self.summaries = self.replaced.summaries
            self.replaced = None

    def repair(self) -> ToolMessage | None:
        """Make the history valid after a crash. The results that had to be added at its end, if any."""
        last = self.history[-1] if self.history else None
        self.history = repaired(self.history, self.ended)
        end = self.history[-1] if self.history else None
        return end if isinstance(end, ToolMessage) and isinstance(last, ModelMessage) else None


def folded(entries: Iterable[Entry]) -> ConversationState:
    """The conversation after these entries; its history may need a repair."""
    state = ConversationState()
    for entry in entries:
        state.add(entry)
    return state


def repaired(history: Iterable[Message], ended: Mapping[str, CallEnded] | None = None) -> list[Message]:
    """A history that the service accepts: it begins with the user, and every call has its result right behind it.

    What a crash or damage took away is filled in; results without a call and empty messages are left out. `ended`
    are calls that are known to have run, although their results are lost.
    """
    valid: list[Message] = []
    for message in history:
        waiting = valid[-1].calls if valid and isinstance(valid[-1], ModelMessage) else ()
        if isinstance(message, ToolMessage):
            if waiting:
                valid.append(_paired(waiting, message.results))
            continue
        if waiting:
            valid.append(_paired(waiting, ()))
        if message.parts and (valid or isinstance(message, UserMessage)):
            valid.append(message)
    if valid and isinstance(valid[-1], ModelMessage) and valid[-1].calls:
        lost = [_lost(call, (ended or {}).get(call.id)) for call in valid[-1].calls]
        valid.append(ToolMessage(tuple(lost)))
    return valid


def _paired(calls: Iterable[ToolCall], results: Iterable[ToolResult]) -> ToolMessage:
    """One result per call, in call order; a result is used once, since ids may repeat."""
    left = list(results)
    paired = []
    for call in calls:
        found = next((result for result in left if result.call_id == call.id), None)
        if found is not None:
            left.remove(found)
        paired.append(found or _lost(call, None))
    return ToolMessage(tuple(paired))


def _lost(call: ToolCall, ended: CallEnded | None) -> ToolResult:
    """The truth about a call whose result a crash took away: whether it ran, as far as that is known."""
    if ended is None:
        message = "gemcode was ended before this call was. Look at what it may have done before you repeat it."
    elif ended.ok:
        message = "This call was done, but gemcode was ended before its result was kept. Look again if you need it."
    else:
        message = f"This call failed ({ended.kind}), and gemcode was ended after it."
    return ToolResult(call.id, call.name, {"error": {"type": "cancelled", "message": message}})


def together(cost: float | None, more: float | None) -> float | None:
    """The sum, which is not known if a part of it is not."""
    return None if cost is None or more is None else cost + more


def own_words(message: UserMessage) -> str:
    """What the person typed: the first text. Files and piped input that go along are behind it."""
    return next((part.text for part in message.parts if isinstance(part, Text)), "")


def title_of(words: str) -> str:
    """The first line that says something, short enough for a list."""
    line = next((line.strip() for line in words.splitlines() if line.strip()), "")
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"
