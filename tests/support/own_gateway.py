"""A gateway in this process, on a free port, in an event loop of its own thread."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from aiohttp import web
from anyio.from_thread import start_blocking_portal

from conch.gateway.app import make_app
from conch.gateway.config import GatewayConfig
from conch.gateway.state import Gateway


@asynccontextmanager
async def listening(
    gateway: Gateway, shutdown_timeout_s: float, unsent_bytes: int = 0
) -> AsyncIterator[str]:
    """Let a gateway listen on a free port, and yield its URL.

    The system keeps about `unsent_bytes` for a client that does not read, or what it likes.
    """
    app = make_app(gateway)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=shutdown_timeout_s)
    await runner.setup()
    try:
        own = socket.create_server(("127.0.0.1", 0))
        if unsent_bytes:  # of the connections, too
            own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, unsent_bytes)
        await web.SockSite(runner, own).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class OwnGateway:
    def __init__(self, gateway: Gateway, loop: asyncio.AbstractEventLoop, url: str) -> None:
        self.gateway, self._loop, self.url = gateway, loop, url

    def metric(self, name: str, **labels: str) -> float:
        """Return a sample of its metrics, 0 if there is none."""
        registry = self.gateway.metrics.registry
        return registry.get_sample_value(name, labels) or 0.0

    def drain(self) -> None:
        """Begin to stop: live sessions get their last text."""
        self._loop.call_soon_threadsafe(self.gateway.draining.set)


@asynccontextmanager
async def _running(*servers: str, **settings: Any) -> AsyncIterator[OwnGateway]:
    gateway = Gateway(GatewayConfig(servers=servers, port=0, **settings))
    await gateway.servers.start()
    async with listening(gateway, 5) as url:
        yield OwnGateway(gateway, asyncio.get_running_loop(), url)
    await gateway.wait_for_streams(10)
    await gateway.servers.close()


@contextmanager
def own_gateway(*servers: str, **settings: Any) -> Iterator[OwnGateway]:
    running = _running(*servers, **settings)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(running) as gateway:
        yield gateway
