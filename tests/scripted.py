"""A Model that answers from a script, and a way to run a coroutine with a cancel at a chosen event."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from gemcode.agent.messages import ModelMessage, ModelRequest, Text, ToolCall, Usage
from gemcode.agent.model import Finish, FinishKind, ModelEvent, ModelReplied, TextDelta

STOP = Finish(FinishKind.COMPLETE, "STOP")
Script = Sequence[ModelEvent | BaseException | float]


def says(*chunks: str, finish: Finish = STOP, usage: Usage = Usage(prompt=10, output=5, total=15)) -> Script:
    text = "".join(chunks)
    parts = (Text(text),) if text else ()
    return [*(TextDelta(chunk) for chunk in chunks), ModelReplied(ModelMessage(parts), finish, usage)]


def calls(
    *wanted: tuple[str, dict[str, Any]], text: str = "", usage: Usage = Usage(prompt=10, output=5, total=15)
) -> Script:
    parts = [ToolCall(f"c{index}", name, args) for index, (name, args) in enumerate(wanted)]
    before = (Text(text),) if text else ()
    events: list[ModelEvent] = [TextDelta(text)] if text else []
    return [*events, ModelReplied(ModelMessage((*before, *parts)), STOP, usage)]


class ScriptedModel:
    """Plays one script per step. A number is a pause in seconds, an exception is raised."""

    def __init__(self, *scripts: Script) -> None:
        self._scripts = list(scripts)
        self.requests: list[ModelRequest] = []
        self.closed = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(
            ModelRequest(request.model, list(request.messages), request.system, request.tools, request.tool_choice)
        )
        try:
            for item in self._scripts.pop(0):
                if isinstance(item, BaseException):
                    raise item
                if isinstance(item, int | float):
                    await asyncio.sleep(item)
                else:
                    yield item
        finally:
            self.closed += 1


async def cancel_when(task: "asyncio.Task[Any]", ready: Callable[[], bool]) -> None:
    """Cancel the task as soon as `ready` says so, and wait for its end."""
    while not ready() and not task.done():
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.wait([task])
