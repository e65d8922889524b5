"""Where a server listens: free ports, and its state, by the standard library alone."""

import contextlib
import errno
import http.client
import json
import socket
from dataclasses import dataclass
from typing import Any

from conch.launcher.admin import Restriction, headers_for
from conch.wire.errors import ServerError
from conch.wire.hosts import host_port, reachable

TIMEOUT_S = 2.0


@dataclass(frozen=True)
class Endpoints:
    address: str
    http_port: int
    grpc_port: int
    metrics_port: int
    restricted: tuple[Restriction, ...] = ()

    @property
    def reachable(self) -> str:
        return reachable(self.address)

    def is_ready(self, name: str) -> bool:
        """Return whether the server answers on all three ports with every model loaded.

        Another server than `name` may have taken the port first.
        """
        status, body = self.fetch("metadata", "GET", "/v2")
        if status != 200 or _json(body).get("name") != name:
            return False
        if self.fetch("health", "GET", "/v2/health/ready")[0] != 200:
            return False
        if self.fetch("", "GET", "/metrics", port=self.metrics_port)[0] != 200:
            return False
        try:
            socket.create_connection((self.reachable, self.grpc_port), TIMEOUT_S).close()
        except OSError:
            return False
        return True

    def ready_models(self) -> tuple[str, ...]:
        """Return the sorted names of the models that serve; none if the server does not answer."""
        path = "/v2/repository/index"
        status, body = self.fetch("model-repository", "POST", path, '{"ready": true}')
        if status != 200:
            return ()
        return tuple(sorted({str(model["name"]) for model in json.loads(body)}))

    def administer(self, model: str, action: str, timeout_s: float) -> bool:
        """`load` or `unload` a model; return False if late, raise a ServerError if it fails."""
        path = f"/v2/repository/models/{model}/{action}"
        status, body = self.fetch("model-repository", "POST", path, "{}", timeout_s=timeout_s)
        if status not in (0, 200):
            raise ServerError(f"{action}: {_json(body).get('error') or f'status {status}'}")
        return status == 200

    def fetch(
        self,
        api: str,
        method: str,
        path: str,
        body: str | None = None,
        timeout_s: float = TIMEOUT_S,
        port: int | None = None,
    ) -> tuple[int, bytes]:
        """Return status and body of one HTTP request; (0, b"") if nothing answers.

        The request has the key of its API, if any. `timeout_s` limits each wait for bytes.
        """
        connection = http.client.HTTPConnection(
            self.reachable, port or self.http_port, timeout=timeout_s
        )
        try:
            connection.request(method, path, body, dict(headers_for(api, self.restricted)))
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()


def _json(body: bytes) -> dict[str, Any]:
    try:
        data = json.loads(body)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def resolve_host(host: str) -> str:
    """Return the address of `host`, IPv4 if it has one; Triton's HTTP service takes no names."""
    try:
        addresses = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ServerError(f"--host {host} is no address of this machine: {error}") from error
    return min((str(item[4][0]) for item in addresses), key=lambda address: ":" in address)


def require_free(host: str, port: int, option: str) -> None:
    """Raise a ServerError that names `option` if no server can listen on `host`:`port` now."""
    _listening(host, port, option).close()


def pick_free(host: str, count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(_listening(host, 0, "--host")) for _ in range(count)]
        return [int(probe.getsockname()[1]) for probe in probes]


def _listening(host: str, port: int, option: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        # As Triton does, it ignores the closing connections of an earlier server.
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ServerError(_refusal(host, port, option, error)) from error


def _refusal(host: str, port: int, option: str, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} on {host} is taken by another program: choose another with {option} "
            "(0 takes any free port)"
        )
    if error.errno == errno.EACCES:
        return f"port {port} needs more rights than this user has: choose another with {option}"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine: choose another with --host"
    return f"cannot listen on {host_port(host, port)} ({option}): {error.strerror}"
