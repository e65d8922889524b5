"""How requests reach a server: the interface of the transports, and which of them a URL takes."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Protocol

from conch.client import tensors
from conch.client.endpoint import Endpoint
from conch.client.gateway import GatewayTransport, is_gateway
from conch.client.speech import Speech
from conch.client.triton_grpc import GrpcTransport
from conch.client.triton_http import HttpTransport
from conch.wire.entry_points import Health
from conch.wire.errors import ConchError
from conch.wire.result import Transcript


class Transport(Protocol):
    """Sends any number of requests at the same time.

    Every method raises a `ConchError` if the server cannot be reached, is late, or answers with an
    error.
    """

    async def infer(self, request: tensors.Request) -> list[Transcript]:
        """Send a request and return a transcript of each audio."""
        ...

    def stream(self, request: tensors.Request) -> AsyncGenerator[Transcript, None]:
        """Send a request of one audio; yield every part of the answer as it arrives.

        Leaving the iterator early cancels the request. Raise a ServerError if the protocol has no
        such answers.
        """
        ...

    def speak(self, request: tensors.Request) -> AsyncGenerator[Speech, None]:
        """Send a text; yield every part of its audio as it arrives.

        Leaving the iterator early cancels the request. Raise a ServerError if the protocol has no
        answers in parts.
        """
        ...

    async def health(self, model: str, timeout_s: float) -> Health:
        """Return what a model says of its components."""
        ...

    async def is_ready(self, model: str, timeout_s: float) -> bool:
        """Return whether the server takes requests for a model."""
        ...

    async def close(self) -> None:
        """Close the connections; requests in flight fail."""
        ...


async def connect(
    endpoint: Endpoint, *, connections: int, timeout_s: float, uploads: int | None = None
) -> Transport:
    """Return the transport for a server; over HTTP, ask what answers there.

    There are at most so many `connections` over HTTP, and large `uploads` at once over gRPC. Raise
    a ServerError if nothing answers in time.
    """
    if endpoint.address.is_grpc:
        return GrpcTransport(endpoint, uploads)
    is_found = await asyncio.to_thread(is_gateway, endpoint, timeout_s)
    return (GatewayTransport if is_found else HttpTransport)(endpoint, connections)


def has_streams(endpoint: Endpoint) -> bool:
    """Return whether answers from a server can come in parts; False if it is not reached."""
    if endpoint.address.is_grpc:
        return True
    try:
        return is_gateway(endpoint)
    except ConchError:
        return False
