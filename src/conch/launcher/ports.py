"""Ports to listen on."""

import contextlib
import errno
import socket

from conch.wire.errors import ServerError
from conch.wire.hosts import host_port


def resolve_host(host: str) -> str:
    """Return the address of `host`, IPv4 if it has one; Triton's HTTP service takes no names.

    Raise a ServerError if the name cannot be resolved.
    """
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ServerError(f"--host {host} is no address of this machine: {error}") from error
    return min((str(item[4][0]) for item in found), key=lambda address: ":" in address)


def require_free(host: str, port: int, option: str) -> None:
    """Raise a ServerError that names `option` if no server can listen on `host`:`port` now."""
    _listening(host, port, option).close()


def pick_free(host: str, count: int) -> list[int]:
    """Return `count` different free ports; raise a ServerError if `host` is not of this machine."""
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
