"""PersistentModel: a Model that tries again. It decides nothing itself (retry.py does) and knows no wire."""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from gemcode.agent.errors import ModelError
from gemcode.agent.messages import ModelRequest
from gemcode.agent.model import Finish, Model, ModelEvent, ModelReplied, Retrying
from gemcode.gemini.retry import Progress, RetryPolicy, after_error, after_reply, remedied


class PersistentModel:
    """Implements Model around another one. A failed attempt shows up as Retrying, never as ModelReplied."""

    def __init__(
        self,
        model: Model,
        policy: RetryPolicy = RetryPolicy(),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._model = model
        self._policy = policy
        self._sleep = sleep
        self._draw = draw

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        progress = Progress()
        finish: Finish | None = None
        while True:
            reply: ModelReplied | None = None
            try:
                sent = remedied(request, progress.remedies, finish)
                async with aclosing(self._model.stream(sent)) as events:
                    async for event in events:
                        if isinstance(event, ModelReplied):
                            reply = event
                        else:
                            yield event
                if reply is None:
                    raise ModelError("The answer has no end.", "Try again.", retryable=True)
            except ModelError as error:
                again = after_error(error, progress, self._policy, self._draw())
            else:
                finish = reply.finish
                decision = after_reply(reply, progress, self._policy, self._draw())
                if decision is None:
                    yield reply
                    return
                again = decision
            progress = progress.after(again)
            yield Retrying(again.reason, again.delay, progress.failed, again.attempts)
            await self._sleep(again.delay)
