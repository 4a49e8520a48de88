"""The simulated service on a loopback socket: connections, routing, recording of requests. The rules are in rules.py.

async with Simulator(scenario) as simulator: …          inside a running event loop
with running_simulator(scenario) as simulator: …        from plain code, in a thread of its own
"""

import asyncio
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, unquote

import h11

from gemcode.simulator.connection import Connection, Incoming
from gemcode.simulator.errors import Rejected, invalid_argument
from gemcode.simulator.payload import NOT_JSON, TOO_DEEP, Unreadable, read_json
from gemcode.simulator.playback import COMMON_HEADERS, play, pretty
from gemcode.simulator.reply import JSON_TYPE, Brain, HttpError, RecordedRequest, ScenarioExhausted
from gemcode.simulator.scenario import Scenario, ScenarioBrain, parse_scenario
from gemcode.simulator.service import Answer, Failure, Service, Settings

_ROUTES = tuple(
    re.compile(rf"(?:{methods}) /(?P<version>v1|v1beta|v1alpha)/{path}")
    for methods, path in (
        ("POST", r"models/(?P<model>[^/:]+):(?P<action>\w+)"),
        ("GET", r"models(?:/(?P<model>[^/:]+))?"),
        ("GET|POST", r"cachedContents"),
        ("GET|PATCH|DELETE", r"cachedContents/[\w-]+"),
    )
)
_SECRET_HEADERS = ("x-goog-api-key", "authorization", "cookie")
_MASK = "***"
LOOPBACK = "127.0.0.1"  # never another address: whoever can reach it can use it
_NOT_FOUND_PAGE = b"<!DOCTYPE html>\n<html lang=en>\n  <title>Error 404 (Not Found)!!1</title>\n"


@dataclass(frozen=True, slots=True)
class Violation:
    """One request that was refused, or that the brain had no reply for."""

    request: RecordedRequest
    http_code: int
    message: str
    hint: str = ""


class Simulator:
    """A Gemini API on 127.0.0.1. `requests` and `violations` grow while it runs and may be read from any thread."""

    def __init__(
        self,
        source: Brain | Scenario | Mapping[str, Any],
        settings: Settings | None = None,
        *,
        port: int = 0,
    ) -> None:
        brain, settings = _prepare(source, settings or Settings())
        self._service = Service(brain, settings)
        self._port = port
        self._open: dict[asyncio.Task[None], socket.socket] = {}
        self.requests: list[RecordedRequest] = []
        self.violations: list[Violation] = []

    @property
    def url(self) -> str:
        """The base URL, without a version and without a slash at the end."""
        return f"http://{LOOPBACK}:{self._port}"

    async def __aenter__(self) -> Self:
        self._listener = socket.create_server((LOOPBACK, self._port))
        self._listener.setblocking(False)
        self._port = self._listener.getsockname()[1]
        asyncio.get_running_loop().add_reader(self._listener, self._accept)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()
        sockets = dict(self._open)
        for task in sockets:
            task.cancel()
        await asyncio.gather(*sockets, return_exceptions=True)
        for raw in sockets.values():  # a task that was cancelled before it began has closed nothing
            raw.close()

    def _accept(self) -> None:
        try:
            raw, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return  # the client is gone again
        raw.setblocking(False)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # an event must not wait for an acknowledgement
        task = asyncio.create_task(self._converse(raw))
        self._open[task] = raw
        task.add_done_callback(self._open.pop)

    async def _converse(self, raw: socket.socket) -> None:
        connection = Connection(*await asyncio.open_connection(sock=raw))
        try:
            while (incoming := await connection.next_request()) is not None:
                await self._serve(connection, incoming)
                if not connection.start_next_round():
                    break
        except (ConnectionError, h11.ProtocolError):
            pass  # a client that leaves or speaks no HTTP ends its own connection only
        except asyncio.CancelledError:
            connection.abort()
            raise
        finally:
            await connection.close()

    async def _serve(self, connection: Connection, incoming: Incoming) -> None:
        """Answers one request while watching whether the client still waits for it."""
        request = self._record(incoming)
        work = asyncio.create_task(self._answer(connection, incoming, request))
        gone = asyncio.create_task(connection.wait_gone())
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done() or isinstance(work.exception(), ConnectionError):
                request.disconnected.set()
                connection.abort()  # what was not sent yet has no reader
            else:
                work.result()
                request.finished.set()
        finally:
            for task in (work, gone):
                task.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)

    def _record(self, incoming: Incoming) -> RecordedRequest:
        path = incoming.target.partition("?")[0]
        found = (route.fullmatch(f"{incoming.method} {unquote(path)}") for route in _ROUTES)
        parts = next((match.groupdict("") for match in found if match), {})
        request = RecordedRequest(
            number=len(self.requests) + 1,
            method=incoming.method,
            path=path,
            query={key: _MASK if key == "key" else value for key, value in _query(incoming).items()},
            headers={key: _MASK if key in _SECRET_HEADERS else value for key, value in incoming.headers.items()},
            body=read_json(incoming.body),
            size=len(incoming.body),
            time=time.time(),
            version=parts.get("version", ""),
            model=parts.get("model", ""),
            action=parts.get("action", ""),
        )
        self.requests.append(request)
        return request

    async def _answer(self, connection: Connection, incoming: Incoming, request: RecordedRequest) -> None:
        try:
            if not request.version:
                raise Rejected(404, "NOT_FOUND", f"no such path: {request.method} {request.path}")
            key = incoming.headers.get("x-goog-api-key") or _query(incoming).get("key")
            self._service.check_key(key, incoming.headers.get("authorization"))
            if isinstance(request.body, Unreadable):
                raise invalid_argument(f"{NOT_JSON} {request.body.reason}")
            outcome = self._service.handle(request)
        except Rejected as rejected:
            await self._refuse(connection, request, rejected)
        except RecursionError:
            await self._refuse(connection, request, invalid_argument(f"{NOT_JSON} {TOO_DEEP}"))
        except ScenarioExhausted as exhausted:
            await self._refuse(connection, request, Rejected(500, "INTERNAL", str(exhausted)))
        except Exception as error:  # noqa: BLE001 - a brain is user code: its bug must reach the client and the log
            await self._refuse(connection, request, Rejected(500, "INTERNAL", f"The brain failed: {error!r}"))
        else:
            if isinstance(outcome, Answer):
                await connection.respond(200, {"Content-Type": JSON_TYPE, **COMMON_HEADERS}, pretty(outcome.body))
            elif isinstance(outcome, Failure):
                await asyncio.sleep(outcome.delay)
                await _send_error(connection, outcome.error, request)
            else:
                await play(connection, outcome.reply, outcome.events, outcome.framing)

    async def _refuse(self, connection: Connection, request: RecordedRequest, rejected: Rejected) -> None:
        self.violations.append(Violation(request, rejected.http_code, rejected.message, rejected.hint))
        if not request.version:
            await connection.respond(404, {"Content-Type": "text/html; charset=UTF-8"}, _NOT_FOUND_PAGE)
        else:
            await _send_error(connection, HttpError(rejected.http_code, rejected.body()), request)


async def _send_error(connection: Connection, error: HttpError, request: RecordedRequest) -> None:
    body = error.body
    if request.action == "streamGenerateContent" and request.query.get("alt") != "sse" and isinstance(body, dict):
        body = [body]  # a stream that is a JSON array wraps its error too
    data = body.encode() if isinstance(body, str) else pretty(body) if body is not None else b""
    await connection.respond(
        error.status, {"Content-Type": error.content_type, **COMMON_HEADERS, **error.headers}, data
    )


def _query(incoming: Incoming) -> dict[str, str]:
    return dict(parse_qsl(incoming.target.partition("?")[2], keep_blank_values=True))


def _prepare(source: Brain | Scenario | Mapping[str, Any], settings: Settings) -> tuple[Brain, Settings]:
    if isinstance(source, Mapping):
        source = parse_scenario(source)
    if not isinstance(source, Scenario):
        return source, settings
    models = settings.extra_models | ({source.model} if source.model else set())
    lenient = settings.accept_unknown_signatures or not source.strict
    return ScenarioBrain(source), replace(settings, extra_models=models, accept_unknown_signatures=lenient)


@contextmanager
def running_simulator(
    source: Brain | Scenario | Mapping[str, Any], settings: Settings | None = None, *, port: int = 0
) -> Iterator[Simulator]:
    """A simulator in a thread of its own, for plain code and for clients in other processes."""
    simulator = Simulator(source, settings, port=port)
    started: threading.Event = threading.Event()
    failures: list[BaseException] = []
    handle: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def run() -> None:
        stop = asyncio.Event()
        async with simulator:
            handle.append((asyncio.get_running_loop(), stop))
            started.set()
            await stop.wait()

    def main() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread, which raises it
            failures.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=main, name="gemini-simulator", daemon=True)
    thread.start()
    started.wait()
    if failures:
        raise failures[0]
    try:
        yield simulator
    finally:
        loop, stop = handle[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join()
