"""Asks a running server how it is, with nothing but the standard library."""

import http.client
import json
import socket
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from conch.launcher.admin import Restriction, headers_for
from conch.launcher.command import Endpoints

TIMEOUT_S = 2.0
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


def is_ready(endpoints: Endpoints, name: str, restricted: Collection[Restriction]) -> bool:
    """Whether the server called `name` answers on all three ports with every model loaded.

    The name tells our server from another that took the port first. `restricted` is what the
    server answers only with a key, its health perhaps.
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
    """Names of the models that serve requests, sorted; `restricted` has the index's key."""
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


def fetch(
    host: str,
    port: int,
    method: str,
    path: str,
    body: str = "",
    headers: Mapping[str, str] = NO_HEADERS,
) -> tuple[int, bytes]:
    """Status and body of one HTTP request; (0, b"") when nothing answers."""
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
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
