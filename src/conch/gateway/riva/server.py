"""The gRPC port of a gateway, for clients of Riva, and its `grpc.health.v1`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc  # type: ignore[import-untyped]

from conch.client.aio import timeout
from conch.gateway.config import GatewayConfig
from conch.gateway.doors import DOORS
from conch.gateway.errors import ApiError, overloaded
from conch.gateway.riva import recognition, synthesis
from conch.gateway.riva.calls import Answer, RpcCall, observed
from conch.gateway.riva.protocol import HEALTH, RECOGNITION, SYNTHESIS, Method, methods_of
from conch.gateway.servers import POLL_S
from conch.gateway.state import Gateway
from conch.wire.errors import ServerError
from conch.wire.hosts import host_port

END_S = 2.0
"""Seconds for calls to end after the drain."""
MAX_CALLS = 2000
"""Calls at once. One more is refused by gRPC."""
MESSAGE_HEAD_BYTES = 1 << 20
"""Bytes that a request may have in addition to its audio."""


async def check(call: RpcCall) -> None:
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


_ANSWERS: dict[str, Answer] = {
    **{door.address: door.answer for door in DOORS if door.transport == "grpc"},
    f"/{RECOGNITION}/GetRivaSpeechRecognitionConfig": recognition.recognition_config,
    f"/{SYNTHESIS}/GetRivaSynthesisConfig": synthesis.synthesis_config,
    f"/{HEALTH}/Check": check,
    f"/{HEALTH}/Watch": watch,
}


def _handler(gateway: Gateway, method: Method) -> Any:
    answer = _ANSWERS[method.path]

    async def handle(_requests: Any, context: Any) -> None:
        await observed(RpcCall(gateway, method, context), answer)

    return grpc.stream_stream_rpc_method_handler(handle)


@asynccontextmanager
async def listening(gateway: Gateway, host: str, port: int) -> AsyncIterator[int]:
    """Serve inside the block and yield the port; raise a ServerError if it cannot be opened."""
    config = gateway.config
    server = grpc.aio.server(options=_options(config), maximum_concurrent_rpcs=MAX_CALLS)
    for service in (RECOGNITION, SYNTHESIS, HEALTH):
        handlers = {name: _handler(gateway, it) for name, it in methods_of(service).items()}
        handler = grpc.method_handlers_generic_handler(service, handlers)
        server.add_generic_rpc_handlers((handler,))
    address = host_port(host, port)
    try:
        if credentials := _credentials(config):
            bound = server.add_secure_port(address, credentials)
        else:
            bound = server.add_insecure_port(address)
    except RuntimeError:
        raise ServerError(
            f"Riva's API cannot listen on {address}: the port is taken, or the address is not one "
            "of this machine; another one is given by --riva HOST:PORT; port 0 takes any free port"
        ) from None
    await server.start()
    try:
        yield bound
    finally:
        await server.stop(END_S)


def _options(config: GatewayConfig) -> list[tuple[str, int]]:
    times = config.times
    return [
        # Otherwise a second server could take the same port, and half of the clients.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", int(1e6 * config.max_body_mb) + MESSAGE_HEAD_BYTES),
        ("grpc.max_send_message_length", -1),
        # A client that is lost without a word.
        ("grpc.keepalive_time_ms", int(1000 * times.ping_s)),
        ("grpc.keepalive_timeout_ms", int(500 * times.ping_s)),
        ("grpc.max_connection_idle_ms", int(1000 * times.keep_alive_s)),
    ]


def _credentials(config: GatewayConfig) -> Any:
    """Return the certificate, None without one."""
    if config.tls_cert is None:
        return None
    chain = config.tls_cert.read_bytes()
    key = config.tls_key.read_bytes() if config.tls_key else chain
    return grpc.ssl_server_credentials([(key, chain)])
