"""A gateway in the loop of a test, in front of a client that never reaches a server."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from own_gateway import listening
from plain_live import PlainLiveClient

from conch.gateway.config import GatewayConfig
from conch.gateway.keys import Key
from conch.gateway.limits import Limits
from conch.gateway.state import Gateway
from conch.wire.errors import ServerError


class PlainServers:
    models: tuple[str, ...] = ()

    def __init__(self, client: PlainLiveClient) -> None:
        self.client = client
        self.errors: list[ServerError] = []
        """Those at which the servers behind a gateway are looked at."""
        self.lacking: set[str] = set()
        """Components that are not ready."""

    @asynccontextmanager
    async def reserved(self) -> AsyncIterator[PlainLiveClient]:
        try:
            yield self.client
        except ServerError as error:
            self.errors.append(error)
            raise

    async def ready_models(self, models: Sequence[str]) -> set[str]:
        return {*models} - self.lacking


class LoopGateway:
    def __init__(self, gateway: Gateway, servers: PlainServers, url: str) -> None:
        self.gateway, self.servers, self.url = gateway, servers, url
        self.client = servers.client

    def metric(self, name: str, **labels: str) -> float:
        """Return a sample of its metrics, 0 if there is none."""
        return self.gateway.metrics.registry.get_sample_value(name, labels) or 0.0

    def ended(self, route: str, code: int | str, key: str = "anybody") -> float:
        """Return how many sessions have ended with a code."""
        name = "conch_gateway_sessions_ended_total"
        return self.metric(name, route=route, key=key, code=str(code))


@asynccontextmanager
async def loop_gateway(
    client: PlainLiveClient | None = None,
    limits: Limits | None = None,
    *,
    unsent_bytes: int = 0,
    **settings: Any,
) -> AsyncIterator[LoopGateway]:
    """Yield a gateway with its own settings, and limits of everybody."""
    gateway = Gateway(GatewayConfig(port=0, **settings))
    servers = PlainServers(client or PlainLiveClient())
    gateway.servers = servers  # type: ignore[assignment]
    if limits is not None:
        everybody = gateway.caller(replace(Key("me", ""), limits=limits))
        gateway.caller = lambda key: everybody  # type: ignore[method-assign]
    async with listening(gateway, 2, unsent_bytes) as url, asyncio.timeout(60):
        yield LoopGateway(gateway, servers, url)


async def until(condition: Callable[[], bool]) -> None:
    async def wait() -> None:
        while not condition():
            await asyncio.sleep(0.01)

    await asyncio.wait_for(wait(), 60)
