"""Ports to listen on."""

import contextlib
import errno
import socket

from conch.wire.errors import ServerError


def resolve_host(host: str) -> str:
    """Return the IPv4 address of `host`; Triton's HTTP service takes no names.

    Raises:
        ServerError: the name cannot be resolved.
    """
    try:
        found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        raise ServerError(f"--host {host} is no IPv4 address of this machine: {error}") from error
    return str(found[0][4][0])


def require_free(host: str, port: int, option: str) -> None:
    """Check that a server can listen on `host`:`port` now.

    Raises:
        ServerError: it cannot; the message names `option`.
    """
    _listening(host, port, option).close()


def pick_free(host: str, count: int) -> list[int]:
    """Return `count` different ports that are free at this moment.

    Raises:
        ServerError: `host` is no address of this machine.
    """
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(_listening(host, 0, "--host")) for _ in range(count)]
        return [int(probe.getsockname()[1]) for probe in probes]


def _listening(host: str, port: int, option: str) -> socket.socket:
    probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # As Triton does: ignore the closing connections of an earlier server.
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind((host, port))
        probe.listen()
    except OSError as error:
        probe.close()
        raise ServerError(_refusal(host, port, option, error)) from error
    return probe


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
    return f"cannot listen on {host}:{port} ({option}): {error.strerror}"
