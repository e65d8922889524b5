"""The transport for a URL; over HTTP, that for whatever answers: a Triton or a gateway."""

import asyncio

from conch.client.endpoint import Endpoint
from conch.client.gateway import GatewayTransport, is_gateway
from conch.client.transports import GrpcTransport, HttpTransport, Transport
from conch.wire.errors import ConchError


async def connect(
    endpoint: Endpoint, *, connections: int, timeout_s: float, uploads: int | None = None
) -> Transport:
    """Return the transport for a server; over HTTP, ask what answers there.

    Args:
        endpoint: The server.
        connections: Most connections at once, over HTTP.
        timeout_s: Seconds to wait for the answer.
        uploads: Most large requests that are sent at once, over gRPC; None for no limit.

    Raises:
        ServerError: nothing answers.
        DeadlineError: the server does not answer in time.
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
