"""`grpc.health.v1`: whether a gateway takes work."""

import asyncio
from contextlib import suppress

from conch.client.timeouts import timeout
from conch.gateway.errors import ApiError, overloaded
from conch.gateway.riva.calls import RpcCall
from conch.gateway.riva.protocol import RECOGNITION, SYNTHESIS
from conch.gateway.servers import POLL_S
from conch.gateway.state import Gateway


async def check(call: RpcCall) -> None:
    """Answer whether a service is ready now."""
    service = (await call.request()).service
    await call.send(call.method.response(status=_status(call.gateway, service)))


async def watch(call: RpcCall) -> None:
    """Answer whether a service is ready, whenever that changes."""
    gateway, last = call.gateway, ""
    if gateway.watches.locked():
        raise overloaded("no further watch may be open; try again later, or ask by Check")
    async with gateway.watches:
        service = (await call.request()).service
        while not gateway.draining.is_set() or last != "NOT_SERVING":
            if (status := _status(gateway, service)) != last:
                last = status
                await call.send(call.method.response(status=status))
            with suppress(asyncio.TimeoutError):
                async with timeout(POLL_S):
                    await gateway.draining.wait()


def _status(gateway: Gateway, service: str) -> str:
    if service not in ("", RECOGNITION, SYNTHESIS):
        raise ApiError(404, f"no service {service!r:.80}; there are {RECOGNITION}, {SYNTHESIS}")
    is_ready = gateway.servers.is_ready and not (gateway.draining.is_set() or gateway.servers.away)
    return "SERVING" if is_ready else "NOT_SERVING"
