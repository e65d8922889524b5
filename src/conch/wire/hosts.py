"""Hosts of servers: how they are written with a port, and which of them are on this machine."""

import ipaddress
import socket


def host_port(host: str, port: object) -> str:
    """Return `host:port`; an IPv6 address has brackets."""
    bare = host.strip("[]")
    return f"[{bare}]:{port}" if ":" in bare else f"{bare}:{port}"


def reachable(host: str) -> str:
    """Return the host by which this machine reaches a server that listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)


def is_address(host: str) -> bool:
    try:
        return bool(ipaddress.ip_address(host))
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a host."""
    host = host.strip("[]")
    if is_address(host):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost"


def is_here(host: str) -> bool:
    """Return whether a host is `localhost` or an address of this machine."""
    host = reachable(host)
    if is_loopback(host) or not is_address(host):
        return is_loopback(host)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 9))  # sends nothing: the kernel chooses the address to send from
            return bool(probe.getsockname()[0] == host)
    except OSError:
        return False
