"""Run a gateway: listen with limits, serve until it is asked to stop, and drain."""

import asyncio
import contextlib
import logging
import resource
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from contextlib import AsyncExitStack
from functools import partial

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler, _ErrInfo
from prometheus_client.registry import Collector

from conch.gateway.app import make_app
from conch.gateway.bodies import problem_of
from conch.gateway.config import GatewayConfig
from conch.gateway.doors import PORTS
from conch.gateway.state import Gateway
from conch.wire.errors import ConfigError, ServerError
from conch.wire.hosts import host_port, is_loopback, reachable
from conch.wire.limits import MAX_QUERY

logger = logging.getLogger(__name__)
HTTP_LOGGER = logging.getLogger("conch.gateway.http")

END_S = 2.0
"""Seconds for connections to close after the drain."""
FREE_S = 10.0
"""Seconds for the servers to end the streams of sessions that were broken off."""
MAX_HEADER_BYTES = 16 * 1024

MAX_SHOWN = 120
"""Most characters of an error, which may quote what was sent."""
SPARE = 512
"""File descriptors for uploads, servers, the processes that `conch serve` watches, and up to three
times BACKLOG connections that are accepted before they count."""
BACKLOG = 128
"""Connections that may wait to be accepted."""


class GatewayService:
    """A gateway that serves inside a `with` block, on an event loop in a thread of its own.

    At the end of the block, running work gets `drain_s` seconds.
    """

    def __init__(self, config: GatewayConfig, metrics: Iterable[Collector] = ()) -> None:
        """Read keys and certificate; raise a ConfigError if everybody could use the gateway."""
        self._config = config
        self._gateway = Gateway(config)
        for others in metrics:
            self._gateway.metrics.registry.register(others)
        if config.wyoming and not (is_loopback(config.wyoming[0]) or config.is_open):
            raise ConfigError(
                f"Wyoming on {config.wyoming[0]} would serve everybody who reaches it, as the "
                "protocol has no keys: say --open where they are all trusted"
            )
        for host in (config.host, config.riva[0] if config.riva else config.host):
            if not (is_loopback(host) or self._gateway.keys.is_needed or config.is_open):
                raise ConfigError(
                    f"listening on {host} without keys would serve everybody who reaches it: "
                    "add a key (conch gateway keys add NAME), or say --open"
                )
        self._tls = _tls(config)
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)
        self._port: Future[int] = Future()
        """Done once the gateway listens."""
        self.other_urls: dict[str, str] = {}
        """Addresses of other protocols by their names, once the gateway listens."""
        self._ask_to_stop: Callable[[], object] = lambda: None

    @property
    def url(self) -> str:
        """The address of a running gateway, as this machine reaches it."""
        scheme = "https" if self._tls else "http"
        return f"{scheme}://{host_port(reachable(self._config.host), self._port.result())}"

    @property
    def openness(self) -> str:
        """Words for who may use the gateway."""
        where = "this machine" if is_loopback(self._config.host) else "every machine"
        if self._gateway.keys.is_needed:
            return f"{where}, with a key"
        return where if is_loopback(self._config.host) else f"{where}, without a key"

    @property
    def num_ready(self) -> int:
        return self._gateway.servers.num_ready

    def __enter__(self) -> "GatewayService":
        """Begin to serve; raise a ServerError if the port or the address cannot be taken."""
        self._thread.start()
        try:
            self._port.result()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Take no new work, wait for running work, and stop. Repeating it does nothing."""
        if self._thread.is_alive():
            wait([self._port])  # until then nothing can be asked to stop
            self._ask_to_stop()
            self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self._port.done():
                logger.exception("the gateway has failed")
            else:
                self._port.set_exception(error)

    async def _serve(self) -> None:
        gateway, config = self._gateway, self._config
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        runner = web.AppRunner(
            make_app(gateway),
            # A client that goes away cancels the work for it.
            handler_cancellation=True,
            access_log=None,
            logger=HTTP_LOGGER,
            keepalive_timeout=config.times.keep_alive_s,
            max_field_size=MAX_HEADER_BYTES,
            max_line_size=2 * MAX_QUERY,
            shutdown_timeout=END_S,
        )
        await runner.setup()
        assert runner.server is not None
        factory = limited(runner.server, config.max_connections or most_connections())
        listening: asyncio.Server | None = None
        others = AsyncExitStack()
        try:
            for other in PORTS:
                if address := getattr(config, other.name.lower()):
                    host, port = address
                    port = await others.enter_async_context(other.opener(gateway, host, port))
                    scheme = "grpcs" if self._tls and other.transport == "grpc" else other.transport
                    self.other_urls[other.name] = f"{scheme}://{host_port(host, port)}"
            try:
                listening = await loop.create_server(
                    factory, config.host, config.port, ssl=self._tls, backlog=BACKLOG
                )
            except OSError as error:
                where = host_port(config.host, config.port)
                raise ServerError(
                    f"the gateway cannot listen on {where}: {error.strerror}; another address is "
                    "given by conch serve --gateway HOST:PORT, or conch gateway --listen "
                    "HOST:PORT; port 0 takes any free port"
                ) from None
            keep_alive(listening, config.times.ping_s)
            await gateway.servers.start()
            self._ask_to_stop = partial(loop.call_soon_threadsafe, stop.set)
            self._port.set_result(listening.sockets[0].getsockname()[1])
            await stop.wait()
            if not await gateway.drain(config.drain_s):
                logger.warning("work that still ran after %g s is broken off", config.drain_s)
        finally:
            if listening is not None:
                listening.close()
            await others.aclose()
            await runner.cleanup()
            await gateway.wait_for_streams(FREE_S)
            await gateway.servers.close()


def _tls(config: GatewayConfig) -> ssl.SSLContext | None:
    """Return the context of the certificate, None without one; or raise a ConfigError."""
    if config.tls_cert is None:
        if config.tls_key is not None:
            raise ConfigError("a key for TLS goes with a certificate: --tls-cert FILE")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(config.tls_cert, config.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"the certificate {config.tls_cert} cannot be used: {error}; --tls-cert takes the "
            "certificate chain and --tls-key its private key, both as PEM"
        ) from None
    return context


def keep_alive(server: asyncio.Server, idle_s: float) -> None:
    """Let the system find out in four times `idle_s` seconds that a silent peer has vanished.

    Connections have the settings of the socket that accepts them.
    """
    for own in server.sockets:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("IDLE", idle_s), ("INTVL", idle_s), ("CNT", 3)):
            if (option := getattr(socket, f"TCP_KEEP{name}", None)) is not None:  # not on macOS
                own.setsockopt(socket.IPPROTO_TCP, option, max(1, round(value)))


class _Refused(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.abort()


class _Connection(RequestHandler):
    """A connection that tells a request if the rest of its body is damaged.

    aiohttp queues such an error behind the request, which would wait for the rest.
    """

    __slots__ = ()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._messages or not isinstance(failure := self._messages[-1][0], _ErrInfo):
            return
        bodies = [body for message, body in self._messages if message is not failure]
        if self._current_request is not None:
            bodies.insert(0, self._current_request.content)
        if bodies and not bodies[-1].is_eof():
            bodies[-1].set_exception(web.RequestPayloadError(failure.message), failure.exc)


def limited(server: web.Server, most: int) -> Callable[[], asyncio.BaseProtocol]:
    """Return the factory of protocols for new connections; it ends those above the limit.

    Without a file descriptor asyncio would try to accept them, ever more often, and serve none.
    """

    def protocol() -> asyncio.BaseProtocol:
        if len(server.connections) >= most:
            return _Refused()
        return _Connection(server, loop=asyncio.get_running_loop(), **server._kwargs)

    return protocol


def most_connections() -> int:
    """Return how many connections there may be, and let the program open all that it is allowed."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS takes less than it says
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else max(soft - SPARE, soft // 2)


def shorten(record: logging.LogRecord) -> bool:
    """Make an error of a client's HTTP one line at level info; return whether it is shown.

    aiohttp logs it with a traceback, and anybody can send a line that is too long.
    """
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, ConnectionResetError):
        return False  # the access log has it
    if not isinstance(error, HttpProcessingError | web.RequestPayloadError):
        return True
    record.levelno, record.levelname = logging.INFO, "INFO"
    record.exc_info = None
    record.msg, record.args = "wrong HTTP: %s", (problem_of(error)[:MAX_SHOWN],)
    return HTTP_LOGGER.isEnabledFor(logging.INFO)


HTTP_LOGGER.addFilter(shorten)
