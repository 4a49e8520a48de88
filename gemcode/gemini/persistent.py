"""PersistentModel: a Model that tries again. It decides nothing itself: retry.py does."""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from gemcode.agent.errors import ModelError
from gemcode.agent.messages import ModelRequest
from gemcode.agent.model import Finish, Model, ModelEvent, ModelReplied, Retrying
from gemcode.gemini import wire
from gemcode.gemini.retry import Progress, Remedy, RetryPolicy, after_error, after_reply, remedied


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
        self._refused = ("", 0)  # the model that refused the signatures of so many first messages

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        request = self._without_refused(request)
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
                    if Remedy.UNSIGN in progress.remedies:
                        self._refused = (request.model, len(request.messages))
                    yield reply
                    return
                again = decision
            progress = progress.after(again)
            yield Retrying(again.reason, again.delay, progress.failed, again.attempts)
            await self._sleep(again.delay)

    def _without_refused(self, request: ModelRequest) -> ModelRequest:
        """A conversation whose signatures were refused once is not sent with them again."""
        model, first = self._refused
        if model != request.model or len(request.messages) < first:
            return request
        return wire.without_signatures(request, first)
