"""A gateway on a real port in front of a strict simulator, for clients over real HTTP."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import uvicorn

from gemcode.gateway.config import GatewayConfig
from gemcode.gateway.server import build_app
from gemcode.gemini.settings import GeminiSettings
from gemcode.simulator.reply import RecordedRequest, Reply
from gemcode.simulator.server import Simulator, running_simulator
from gemcode.simulator.service import Settings

TOKEN = "gc_test_token_0123456789"
MODEL = "gemini-3.8-flash"


class Script:
    """A brain that plays its replies in order; a callable among them sees the request. The last one repeats."""

    def __init__(self, *replies: Reply | Callable[[RecordedRequest], Reply]) -> None:
        self._replies = list(replies)

    def answer(self, request: RecordedRequest) -> Reply:
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        return reply if isinstance(reply, Reply) else reply(request)


@dataclass(slots=True)
class Stage:
    """Gateway and simulator, and what went wrong inside."""

    url: str
    simulator: Simulator
    reports: list[str] = field(default_factory=list)

    @property
    def upstream(self) -> list[RecordedRequest]:
        return [request for request in self.simulator.requests if "enerateContent" in request.action]

    def signatures(self, index: int = -1) -> list[str]:
        """The signatures that an upstream request carried, in order."""
        parts = [part for content in self.upstream[index].contents for part in content["parts"]]
        return [part["thoughtSignature"] for part in parts if "thoughtSignature" in part]


def config_for(simulator: Simulator, **changes: Any) -> GatewayConfig:
    config = GatewayConfig(GeminiSettings("upstream-key-0123456789", simulator.url), TOKEN, port=0)
    return replace(config, **changes)


@contextmanager
def running_gateway(config: GatewayConfig, report: Callable[[str], None]) -> Iterator[str]:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    settings = uvicorn.Config(build_app(config, report), log_config=None, access_log=False, timeout_graceful_shutdown=2)
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started:
        assert thread.is_alive() and time.monotonic() < deadline, "the gateway did not start"
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()


@contextmanager
def stage(
    *replies: Reply | Callable[[RecordedRequest], Reply], settings: Settings | None = None, **changes: Any
) -> Iterator[Stage]:
    """Everything running; at the end nothing may have gone wrong inside, and nothing been refused upstream."""
    with ExitStack() as stack:
        simulator = stack.enter_context(running_simulator(Script(*replies), settings or Settings(strict_ids=True)))
        made = Stage("", simulator)
        made.url = stack.enter_context(running_gateway(config_for(simulator, **changes), made.reports.append))
        yield made
        assert made.reports == []


def no_violations(made: Stage) -> None:
    assert [(violation.message, violation.hint) for violation in made.simulator.violations] == []
