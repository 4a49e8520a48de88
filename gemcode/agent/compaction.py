"""When the window fills up: what is cut, what is kept word for word, and the one request for a summary.

It changes nothing by itself: the result is a value that the loop commits, and that can be undone.
"""

import json
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace

from gemcode.agent.caps import json_size, result_size
from gemcode.agent.conversation import ConversationState
from gemcode.agent.errors import GemcodeError, ModelError
from gemcode.agent.ledger import written
from gemcode.agent.messages import (
    Blob,
    ChoiceMode,
    Message,
    ModelMessage,
    ModelRequest,
    Opaque,
    Text,
    Thought,
    ToolCall,
    ToolChoice,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from gemcode.agent.model import FinishKind, ModelReplied, Retrying, StepEvent
from gemcode.agent.transcript import Compacted
from gemcode.frozen import frozen

BYTES_PER_TOKEN = 4.0
KEPT_SHARE = 1 / 8  # of the conversation: how much of its newest part stays as it is
WORTHWHILE = 0.8  # stubs alone count as a compaction if no more than this share is left
LARGE_RESULT = 2048  # bytes; smaller results are not worth a stub
FRESH_RESULTS = 2  # tool messages at the end that stay whole: the model is working with them
LONGEST_WORDS = 16 * 1024  # characters of one prompt that are kept

_REQUEST = """\
The conversation is getting long. Write a summary of it from which you can go on without it: what the user wants, what \
was found (files, names, line numbers), what was decided and why, what was done, what is open. The user's own messages \
and the list of changed files are kept beside it: don't repeat them. Plain text, at most 800 words, no calls.\
"""


@frozen
class Window:
    """How much of the model's input limit is used. `tokens` is as the service counted, or an estimate."""

    tokens: int
    limit: int | None

    def is_full(self, share: float) -> bool:
        return self.limit is not None and self.tokens >= share * self.limit


def size(message: Message) -> int:
    """Bytes, about as the service gets them."""
    if isinstance(message, ToolMessage):
        return sum(result_size(result) for result in message.results)
    return sum(_part_size(part) for part in message.parts)


def _part_size(part: Text | Thought | ToolCall | Blob | Opaque) -> int:
    match part:
        case Text() | Thought():
            return len(part.text.encode("utf-8", "replace"))
        case ToolCall():
            return len(part.name) + json_size(part.args)
        case Blob():
            return len(part.data)
        case Opaque():
            return json_size(part.raw)


def choose_cut(history: Sequence[Message], keep: int, *, summarised: bool, open_turn: bool) -> int:
    """Where the kept part begins: before a prompt, so that it holds at most `keep` bytes if that is possible.

    A prompt that is being worked on is always kept; between two turns the end is a place to cut as well. 0: no cut.
    """
    first = 1 if summarised else 0  # a summary alone is not summarised again
    places = [index for index, message in enumerate(history) if isinstance(message, UserMessage) and index > first]
    if not open_turn and len(history) > first:
        places.append(len(history))
    kept, position = 0, len(history)
    best = 0
    for place in reversed(places):
        kept += sum(size(message) for message in history[place:position])
        position = place
        if best and kept > keep:
            break
        best = place
    return best


def with_stubs(messages: Sequence[Message]) -> list[Message]:
    """The messages with large results of older steps replaced by a line that says how to get them again."""
    tools = [index for index, message in enumerate(messages) if isinstance(message, ToolMessage)]
    fresh = tools[-FRESH_RESULTS:]
    result: list[Message] = []
    calls: dict[str, ToolCall] = {}
    for index, message in enumerate(messages):
        if isinstance(message, ModelMessage):
            calls = {call.id: call for call in message.calls}
        elif isinstance(message, ToolMessage) and index not in fresh:
            message = ToolMessage(tuple(_stubbed(item, calls.get(item.call_id)) for item in message.results))
        result.append(message)
    return result


def _stubbed(result: ToolResult, call: ToolCall | None) -> ToolResult:
    length = result_size(result)
    if not result.ok or length <= LARGE_RESULT:
        return result
    again = f" with {json.dumps(call.args)}" if call and json_size(call.args) < LARGE_RESULT else " again"
    note = f"Left out to save room: {length} bytes. Call {result.name}{again} if you need it."
    return replace(result, response={"output": note}, media=(), display=None)


def summary_message(summary: str, words: Sequence[str], files: Iterable[str]) -> UserMessage:
    """The message that stands for the older conversation: the model's summary, the user's words, the ledger."""
    said = "\n".join(f"{number}. {_shortened(text)}" for number, text in enumerate(words, 1))
    changed = "\n".join(f"- {line}" for line in files)
    text = f"The conversation so far, in short (the full text was left out to save room):\n\n{summary.strip()}"
    text += f"\n\nWhat I said, word for word:\n{said}" if said else ""
    text += f"\n\nFiles changed so far:\n{changed}" if changed else ""
    return UserMessage.of(text)


def _shortened(text: str) -> str:
    if len(text) <= LONGEST_WORDS:
        return text
    return f"{text[:LONGEST_WORDS]}\n[{len(text) - LONGEST_WORDS} more characters left out]"


def summary_request(base: ModelRequest, older: Sequence[Message], budget: int) -> ModelRequest:
    """The request for a summary: the same prefix as ever, so that it is cheap, and shortened until it fits `budget`."""
    messages = list(older)
    if sum(map(size, messages)) > budget:
        messages = with_stubs(messages)
    starts = [index for index, message in enumerate(messages) if isinstance(message, UserMessage)]
    while len(starts) > 1 and sum(map(size, messages[starts[0] :])) > budget:
        starts.pop(0)
    messages = messages[starts[0] :] if starts else []
    choice = ToolChoice(ChoiceMode.NONE) if base.tools else base.tool_choice
    return replace(base, messages=(*messages, UserMessage.of(_REQUEST)), tool_choice=choice)


async def compact(
    stream: Callable[[ModelRequest], AsyncGenerator[StepEvent, None]],
    base: ModelRequest,
    state: ConversationState,
    window: Window,
    *,
    open_turn: bool,
    told: Callable[[Retrying], None] = lambda _: None,
) -> Compacted:
    """Put a summary in the place of what it sums up. Raises GemcodeError; changes nothing itself.

    Within one long turn there is nothing to sum up: then stubs alone have to do, and no request is made.
    """
    history = state.history
    total = sum(map(size, history))
    scale = min(max(total / window.tokens, 2.0), 5.0) if window.tokens else BYTES_PER_TOKEN
    cut = choose_cut(history, int(KEPT_SHARE * total), summarised=state.summaries > 0, open_turn=open_turn)
    messages = tuple(with_stubs(history[cut:]))
    if cut:
        budget = int(WORTHWHILE * scale * window.limit) if window.limit else total
        summary = await _ask(stream, summary_request(base, history[:cut], budget), told)
        prompts = sum(isinstance(message, UserMessage) for message in messages)
        words = state.words[: len(state.words) - prompts]
        files = (entry.line() for entry in written(state.changed))
        messages = (summary_message(summary, words, files), *messages)
    elif not messages or sum(map(size, messages)) > WORTHWHILE * total:
        raise GemcodeError("There is nothing to compact.", "It is done by itself when the window fills up.")
    after = window.tokens - int((total - sum(map(size, messages))) / scale)
    turns = sum(isinstance(message, UserMessage) for message in history[:cut]) - (cut > 0 and state.summaries > 0)
    return Compacted(messages, turns, window.tokens, max(after, 1))


async def _ask(
    stream: Callable[[ModelRequest], AsyncGenerator[StepEvent, None]],
    request: ModelRequest,
    told: Callable[[Retrying], None],
) -> str:
    async with aclosing(stream(request)) as events:
        async for event in events:
            if isinstance(event, ModelReplied):
                if event.finish.kind in (FinishKind.COMPLETE, FinishKind.CUT) and event.message.text.strip():
                    return event.message.text
                raise ModelError("The model gave no summary.", "Try again with /compact, or start anew with /clear.")
            if isinstance(event, Retrying):
                told(event)
    raise ModelError("The model gave no summary.", "Try again with /compact, or start anew with /clear.")


@frozen
class ContextReport:
    """What fills the window, in tokens: rows of (what, tokens), and their sum."""

    rows: tuple[tuple[str, int], ...]
    tokens: int
    limit: int | None


def report(request: ModelRequest, window: Window, *, summarised: bool) -> ContextReport:
    """The parts of a request by size, scaled to what the service counted for the last one."""
    sizes = {
        "system": len(request.system.encode()),
        "tools": sum(json_size([tool.name, tool.description, tool.schema]) for tool in request.tools),
        "summary": 0,
        "you": 0,
        "answers": 0,
        "files and tool results": 0,
    }
    for index, message in enumerate(request.messages):
        match message:
            case UserMessage() if summarised and index == 0:
                sizes["summary"] += size(message)
            case UserMessage():
                sizes["you"] += size(message)
            case ModelMessage():
                sizes["answers"] += size(message)
            case ToolMessage():
                sizes["files and tool results"] += size(message)
    total = sum(sizes.values()) or 1
    tokens = window.tokens or round(total / BYTES_PER_TOKEN)
    rows = tuple((name, round(tokens * length / total)) for name, length in sizes.items() if length)
    return ContextReport(rows, tokens, window.limit)
