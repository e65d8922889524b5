"""A gateway in this process, on a free port, in an event loop of its own thread."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from aiohttp import web

from conch.gateway.app import make_app
from conch.gateway.config import GatewayConfig
from conch.gateway.state import Gateway

Result = TypeVar("Result")


class OwnGateway:
    """A gateway that is running."""

    def __init__(self, gateway: Gateway, loop: asyncio.AbstractEventLoop, url: str) -> None:
        self.gateway, self._loop, self.url = gateway, loop, url

    def metric(self, name: str, **labels: str) -> float:
        """Return a sample of its metrics, 0 if there is none."""
        registry = self.gateway.metrics.registry
        return registry.get_sample_value(name, labels) or 0.0

    def drain(self) -> None:
        """Begin to stop: live sessions get their last text."""
        self._loop.call_soon_threadsafe(self.gateway.draining.set)


@contextmanager
def own_gateway(*servers: str, **settings: Any) -> Iterator[OwnGateway]:
    """Yield a gateway in front of these servers."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def wait_for(coroutine: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(60)

    async def start() -> tuple[web.AppRunner, OwnGateway]:
        gateway = Gateway(GatewayConfig(servers=servers, port=0, **settings))
        await gateway.servers.start()
        runner = web.AppRunner(make_app(gateway), handler_cancellation=True, shutdown_timeout=5)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        return runner, OwnGateway(gateway, loop, f"http://127.0.0.1:{port}")

    async def stop(runner: web.AppRunner, running: OwnGateway) -> None:
        await runner.cleanup()
        await running.gateway.wait_for_streams(10)
        await running.gateway.servers.close()

    try:
        runner, running = wait_for(start())
        try:
            yield running
        finally:
            wait_for(stop(runner, running))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
