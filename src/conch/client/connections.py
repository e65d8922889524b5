"""The transport for a URL; over HTTP, that for whatever answers: a Triton or a gateway."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, closing

from conch.client import tensors
from conch.client.endpoint import Endpoint
from conch.client.gateway import AsyncGatewayTransport, GatewayTransport, is_gateway
from conch.client.transports import (
    AsyncGrpcTransport,
    AsyncHttpTransport,
    AsyncTransport,
    GrpcTransport,
    HttpTransport,
    Transport,
)
from conch.client.triton_messages import Result
from conch.wire.errors import ConchError


def connect(endpoint: Endpoint) -> Transport:
    """Return the blocking transport for a server, without sending anything."""
    return GrpcTransport(endpoint) if endpoint.address.is_grpc else WebTransport(endpoint)


def connect_async(
    endpoint: Endpoint, connections: int, uploads: int | None = None
) -> AsyncTransport:
    """Return the asyncio transport for a server. Call it inside the event loop."""
    if endpoint.address.is_grpc:
        return AsyncGrpcTransport(endpoint, uploads)
    return AsyncWebTransport(endpoint, connections)


def has_streams(endpoint: Endpoint) -> bool:
    """Return whether answers from a server can come in parts; False if it is not reached."""
    if endpoint.address.is_grpc:
        return True
    try:
        return is_gateway(endpoint)
    except ConchError:
        return False


class WebTransport:
    """Blocking HTTP; the first request finds out with what."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._found: Transport | None = None
        self._finding = threading.Lock()

    def infer(self, request: tensors.Request) -> Result:
        return self._chosen(request.timeout_s).infer(request)

    def stream(self, request: tensors.Request) -> Generator[Result, None, None]:
        with closing(self._chosen(request.timeout_s).stream(request)) as results:
            yield from results

    def is_ready(self, model: str, timeout_s: float) -> bool:
        return self._chosen(timeout_s).is_ready(model, timeout_s)

    def close(self) -> None:
        found, self._found = self._found, None
        if found is not None:
            found.close()

    def _chosen(self, timeout_s: float) -> Transport:
        with self._finding:
            if self._found is None:
                is_found = is_gateway(self._endpoint, timeout_s)
                self._found = (GatewayTransport if is_found else HttpTransport)(self._endpoint)
            return self._found


class AsyncWebTransport:
    """HTTP on asyncio; the first request finds out with what."""

    def __init__(self, endpoint: Endpoint, connections: int) -> None:
        self._endpoint, self._connections = endpoint, connections
        self._found: AsyncTransport | None = None
        self._finding = asyncio.Lock()

    async def infer(self, request: tensors.Request) -> Result:
        return await (await self._chosen(request.timeout_s)).infer(request)

    async def stream(self, request: tensors.Request) -> AsyncGenerator[Result, None]:
        chosen = await self._chosen(request.timeout_s)
        async with aclosing(chosen.stream(request)) as results:
            async for result in results:
                yield result

    async def is_ready(self, model: str, timeout_s: float) -> bool:
        return await (await self._chosen(timeout_s)).is_ready(model, timeout_s)

    async def close(self) -> None:
        found, self._found = self._found, None
        if found is not None:
            await found.close()

    async def _chosen(self, timeout_s: float) -> AsyncTransport:
        async with self._finding:
            if self._found is None:
                is_found = await asyncio.to_thread(is_gateway, self._endpoint, timeout_s)
                kind = AsyncGatewayTransport if is_found else AsyncHttpTransport
                self._found = kind(self._endpoint, self._connections)
            return self._found
