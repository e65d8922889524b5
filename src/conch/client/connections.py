"""The transport for a URL; over HTTP, that for whatever answers: a Triton or a gateway."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from conch.client import tensors
from conch.client.endpoint import Endpoint
from conch.client.gateway import GatewayTransport, is_gateway
from conch.client.transports import GrpcTransport, HttpTransport, Transport
from conch.wire.errors import ConchError
from conch.wire.result import Transcript


def connect(endpoint: Endpoint, connections: int, uploads: int | None = None) -> Transport:
    """Return the transport for a server. Call it inside the event loop."""
    if endpoint.address.is_grpc:
        return GrpcTransport(endpoint, uploads)
    return WebTransport(endpoint, connections)


def has_streams(endpoint: Endpoint) -> bool:
    """Return whether answers from a server can come in parts; False if it is not reached."""
    if endpoint.address.is_grpc:
        return True
    try:
        return is_gateway(endpoint)
    except ConchError:
        return False


class WebTransport:
    """HTTP; the first request finds out with what."""

    def __init__(self, endpoint: Endpoint, connections: int) -> None:
        self._endpoint, self._connections = endpoint, connections
        self._found: Transport | None = None
        self._finding = asyncio.Lock()

    async def infer(self, request: tensors.Request) -> list[Transcript]:
        return await (await self._chosen(request.timeout_s)).infer(request)

    async def stream(self, request: tensors.Request) -> AsyncGenerator[Transcript, None]:
        chosen = await self._chosen(request.timeout_s)
        async with aclosing(chosen.stream(request)) as parts:
            async for part in parts:
                yield part

    async def components_away(self, model: str, timeout_s: float) -> tuple[str, ...]:
        return await (await self._chosen(timeout_s)).components_away(model, timeout_s)

    async def is_ready(self, model: str, timeout_s: float) -> bool:
        return await (await self._chosen(timeout_s)).is_ready(model, timeout_s)

    async def close(self) -> None:
        found, self._found = self._found, None
        if found is not None:
            await found.close()

    async def _chosen(self, timeout_s: float) -> Transport:
        async with self._finding:
            if self._found is None:
                is_found = await asyncio.to_thread(is_gateway, self._endpoint, timeout_s)
                kind = GatewayTransport if is_found else HttpTransport
                self._found = kind(self._endpoint, self._connections)
            return self._found
