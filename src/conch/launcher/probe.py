"""Ask a running server for its state, by the standard library alone."""

import http.client
import json
import socket
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from conch.launcher.admin import Restriction, headers_for
from conch.launcher.command import Endpoints
from conch.wire.errors import ServerError

TIMEOUT_S = 2.0
"""Seconds for one answer about the server's state."""
NO_HEADERS: Mapping[str, str] = MappingProxyType({})
"""Headers of a request that needs no key."""


def is_ready(endpoints: Endpoints, name: str, restricted: Collection[Restriction]) -> bool:
    """Report whether the server answers on all three ports with every model loaded.

    Args:
        endpoints: the ports to ask.
        name: the server's id: another one may have taken the port first.
        restricted: APIs that ask for a key, perhaps that of health.
    """
    host, http_port = endpoints.reachable, endpoints.http_port
    status, body = fetch(host, http_port, "GET", "/v2", headers=headers_for("metadata", restricted))
    if status != 200 or _json(body).get("name") != name:
        return False
    headers = headers_for("health", restricted)
    if fetch(host, http_port, "GET", "/v2/health/ready", headers=headers)[0] != 200:
        return False
    if fetch(host, endpoints.metrics_port, "GET", "/metrics")[0] != 200:
        return False
    return _listens(host, endpoints.grpc_port)


def ready_models(endpoints: Endpoints, restricted: Collection[Restriction]) -> tuple[str, ...]:
    """Return the sorted names of the models that serve; `restricted` has the index's key."""
    status, body = fetch(
        endpoints.reachable,
        endpoints.http_port,
        "POST",
        "/v2/repository/index",
        '{"ready": true}',
        headers_for("model-repository", restricted),
    )
    if status != 200:
        return ()
    return tuple(sorted({str(model["name"]) for model in json.loads(body)}))


def administer(
    endpoints: Endpoints,
    restricted: Collection[Restriction],
    model: str,
    action: str,
    timeout_s: float,
) -> bool:
    """Load or unload a model; return whether the server has answered in time.

    Args:
        endpoints: the server's ports.
        restricted: APIs that ask for a key, with that of the model repository.
        model: its name.
        action: `load` or `unload`.
        timeout_s: seconds for the answer.

    Raises:
        ServerError: the server refuses or fails.
    """
    status, body = fetch(
        endpoints.reachable,
        endpoints.http_port,
        "POST",
        f"/v2/repository/models/{model}/{action}",
        "{}",
        headers_for("model-repository", restricted),
        timeout_s,
    )
    if status not in (0, 200):
        raise ServerError(f"{action}: {_json(body).get('error') or f'status {status}'}")
    return status == 200


def fetch(
    host: str,
    port: int,
    method: str,
    path: str,
    body: str | bytes = "",
    headers: Mapping[str, str] = NO_HEADERS,
    timeout_s: float = TIMEOUT_S,
) -> tuple[int, bytes]:
    """Return status and body of one HTTP request; (0, b"") if nothing answers."""
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request(method, path, body=body or None, headers=dict(headers))
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


def _json(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=TIMEOUT_S).close()
    except OSError:
        return False
    return True
