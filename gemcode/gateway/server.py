"""The gateway as an HTTP server: access, lifetime, start and stop. What is served is in routes.py.

Two of these beside each other serve the same clients: what a request needs, it brings along.
"""

import contextlib
import errno
import gc
import socket
import time
import traceback
from collections.abc import AsyncIterator

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from gemcode.agent.errors import ExitCode, UsageError
from gemcode.gateway import access
from gemcode.gateway.config import GatewayConfig
from gemcode.gateway.dialect import Failure, FailureKind, Speaker
from gemcode.gateway.exchange import ClientGone, Exchange
from gemcode.gateway.head import bounded_protocol
from gemcode.gateway.routes import Endpoint, endpoints
from gemcode.gateway.service import Service, Write
from gemcode.gateway.welcome import welcome

SHUTDOWN_SECONDS = 5
_BACKLOG = 1024


def build_app(config: GatewayConfig, report: Write = lambda text: None) -> Starlette:
    """The ASGI application. `report` hears of faults of our own: where, never what was said. Raises GemcodeError."""
    service = Service(config, report)

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await service.stop()

    routes = [
        Route(endpoint.path, _Door(service, endpoint), methods=list(endpoint.methods) or None)
        for endpoint in endpoints(service)
    ]
    return Starlette(routes=routes, lifespan=lifespan)


class _Door:
    """One route as ASGI: lets in who may, and says every failure in the dialect of the route."""

    def __init__(self, service: Service, endpoint: Endpoint) -> None:
        self._service = service
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send, self._service.config.body_seconds)
        metrics, speaker = self._service.metrics, self._endpoint.speaker_for(exchange.headers)
        began = time.perf_counter()
        metrics.active += 1
        try:
            await self._admit(exchange)
            await self._endpoint.handler(exchange)
        except ClientGone:
            metrics.count("failures_total", dialect=speaker.name, kind="client_gone")
        except Failure as failure:
            await self._refuse(exchange, speaker, failure)
        except RecursionError:
            await self._refuse(exchange, speaker, Failure(FailureKind.INVALID, "The request is nested too deeply."))
        except Exception as error:  # noqa: BLE001 - the last boundary: a client gets its dialect's error, we get the place
            self._service.report(_place_of(error))
            await self._refuse(exchange, speaker, Failure(FailureKind.SERVER, "The gateway failed on this request."))
        finally:
            metrics.active -= 1
            metrics.latency(time.perf_counter() - began)
            metrics.count("requests_total", dialect=speaker.name, status=str(exchange.status or 499))

    async def _admit(self, exchange: Exchange) -> None:
        config = self._service.config
        access.check_host(",".join(exchange.headers.getlist("host")), config.host)  # of two, neither is
        if not self._endpoint.public:
            access.check_token(exchange.headers, exchange.query, config.token)

    async def _refuse(self, exchange: Exchange, speaker: Speaker, failure: Failure) -> None:
        self._service.metrics.count("failures_total", dialect=speaker.name, kind=failure.kind.value)
        if not exchange.status:
            await exchange.answer_error(speaker.error(failure))


def _place_of(error: BaseException) -> str:
    """Type and place of a fault: the message could hold a client's words."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "unknown place"
    return f"Fault in the gateway: {type(error).__name__} at {place}"


def serve(config: GatewayConfig, write: Write, report: Write) -> int:
    """Run until stopped by a signal. `write` gets the lines for the person, `report` warnings and faults."""
    with _listen(config.host, config.port) as listener:
        app = build_app(config, report)
        if not access.is_loopback(config.host):
            report(f"Warning: {config.host} can be reached from other machines, and the traffic is not encrypted.")
        for line in welcome(config, listener.getsockname()[1]):
            write(line)
        return _run(app, listener)


def _run(app: Starlette, listener: socket.socket) -> int:
    settings = uvicorn.Config(
        app,
        http=bounded_protocol(),
        log_config=None,
        log_level="critical",  # it would tell of every broken request, and of ours with a traceback
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    # What is loaded by now stays: the collector need not look at it again with every request.
    gc.collect()
    gc.freeze()
    try:
        uvicorn.Server(settings).run(sockets=[listener])
    except KeyboardInterrupt:  # uvicorn raises the signal again after it has stopped in good order
        return ExitCode.INTERRUPTED
    return ExitCode.OK


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # The protocol is named so that asyncio recognises TCP, and sends each event at once.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)  # from here on clients may come, before the first line is printed
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        unknown = isinstance(error, socket.gaierror) or getattr(error, "errno", None) == errno.EADDRNOTAVAIL
        hint = f"Choose another one with {'--host' if unknown else '--port'}."
        raise UsageError(f"Can't listen on {host}, port {port}: {reason}.", hint) from None
    listener.setblocking(False)
    return listener
