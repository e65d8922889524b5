"""A gateway in front of nothing, as `conch gateway` runs it."""

from typing import Any

from conch.gateway import GatewayConfig, GatewayService


def lone_gateway(**settings: Any) -> GatewayService:
    """Return a gateway on a free port; unless told otherwise, no server stands behind it."""
    nowhere = {"servers": ("grpc://127.0.0.1:1",), "port": 0}
    return GatewayService(GatewayConfig(**{**nowhere, **settings}))


def address_of(service: GatewayService, protocol: str = "") -> tuple[str, int]:
    """Return the host and the port of HTTP, or of another protocol."""
    url = service.other_urls[protocol] if protocol else service.url
    host, _, port = url.partition("://")[2].rpartition(":")
    return host, int(port)
