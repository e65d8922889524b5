"""The configuration of an HAProxy 2.6 in front of several Conch servers: `haproxy.cfg`, filled in.

A stream lives in one server. Each of its chunks carries the stream's id in the header
`conch-stream` (metadata over gRPC). Consistent hashing (Karger et al., 1997) of that id chooses a
server, and a table keeps the choice as long as chunks come. So adding or draining a server moves no
open stream.

A chunk goes to the server of its stream even while that server counts as down (`option persist`):
a busy server may be late to answer that it is ready. If it accepts no connection, the chunk goes to
another server, which answers that the stream is unknown.
"""

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from conch.wire.hosts import host_port, is_loopback, reachable

TEMPLATE = Path(__file__).with_suffix(".cfg")
"""Template whose lines with `@{name}` are repeated for each server."""
MARK = "# Made by `conch deploy haproxy`"
DEFAULT_PORTS = {"http": 8000, "grpc": 8001, "gateway": 9000}
"""The ports of `conch serve`."""
MAX_PORT = 65_535


@dataclass(frozen=True, slots=True)
class BackendServer:
    host: str
    """Name or address; IPv6 without brackets."""
    http_port: int = DEFAULT_PORTS["http"]
    grpc_port: int = DEFAULT_PORTS["grpc"]
    gateway_port: int = DEFAULT_PORTS["gateway"]

    @classmethod
    def parse(cls, text: str) -> "BackendServer":
        """Read `HOST[:http=PORT,grpc=PORT,gateway=PORT]`, or raise a ValueError that explains."""
        parts = re.fullmatch(r"(\[[^]]*\]|[^:]*)(?::(.*))?", text, re.DOTALL)
        if parts is None or (":" in (parts[2] or "") and "=" not in parts[2]):
            raise ValueError("an IPv6 host is in brackets, [fd00::1]")
        host = checked_host(parts[1][1:-1] if parts[1].endswith("]") else parts[1])
        ports: dict[str, int] = {}
        for item in parts[2].split(",") if parts[2] is not None else ():
            name, equals, port = item.strip().partition("=")
            if not equals or name not in DEFAULT_PORTS:
                raise ValueError(f"{item!r} does not say which port it is, as gateway=9000 does")
            if name in ports:
                raise ValueError(f"{name} is given twice")
            if not (port.isascii() and port.isdecimal()) or not 1 <= int(port) <= MAX_PORT:
                raise ValueError(f"{name}={port}: a port is a number from 1 to {MAX_PORT}")
            ports[name] = int(port)
        named = {**DEFAULT_PORTS, **ports}
        for number in named.values():
            if len(same := [name for name in named if named[name] == number]) > 1:
                raise ValueError(f"{' and '.join(same)} have the same port, {number}")
        return cls(host, **{f"{name}_port": number for name, number in named.items()})

    @property
    def name(self) -> str:
        """Name in HAProxy, from the server's own address alone: tables know servers by it."""
        if self == BackendServer(self.host):
            return self.host
        return f"{self.host}-{self.gateway_port}-{self.http_port}-{self.grpc_port}"

    @property
    def id(self) -> int:
        """Position in the hashing, from `name`: it does not depend on the other servers."""
        return zlib.crc32(self.name.encode()) >> 1 or 1

    @property
    def addresses(self) -> dict[str, str]:
        return {
            f"{name}_address": host_port(self.host, getattr(self, f"{name}_port"))
            for name in DEFAULT_PORTS
        }


@dataclass(frozen=True, slots=True)
class Router:
    """Where the router listens, and its limits; the flags of the command explain each."""

    gateway: tuple[str, int] = ("127.0.0.1", DEFAULT_PORTS["gateway"])
    host: str = "127.0.0.1"
    http_port: int = DEFAULT_PORTS["http"]
    grpc_port: int = DEFAULT_PORTS["grpc"]
    tls_cert: str = ""
    max_body_mb: float = 200
    stats_port: int = 8404
    peers_port: int = 8405
    admin_socket: str = "/run/haproxy/admin.sock"
    user: str = "haproxy"


class _At(Template):
    """A template whose placeholders are `@{name}`: the configuration has many `$` of its own."""

    delimiter = "@"


def haproxy_config(servers: Sequence[BackendServer], router: Router, command: str) -> str:
    """Return a configuration for servers without `duplicates`, as `command` has made it."""
    tls = f" ssl crt {router.tls_cert} alpn " if router.tls_cert else ""
    # Of Triton's ports, where the process of a reload listens too.
    for_others = "" if is_loopback(router.host) else tls
    to_next = " ssl verify none alpn " if for_others else ""
    fields = {
        "command": command,
        "user": f"    user {router.user}\n    group {router.user}\n" if router.user else "",
        "admin_socket": router.admin_socket,
        "peers_port": router.peers_port,
        "stats_port": router.stats_port,
        "max_body": round(router.max_body_mb * 2**20),
        "first": servers[0].name,
        "gateway": host_port(*router.gateway) + (tls and f"{tls}http/1.1"),
    }
    for end, host, how in ("", router.host, for_others), ("_next", reachable(router.host), to_next):
        http, grpc = (host_port(host, port) for port in (router.http_port, router.grpc_port))
        fields[f"http{end}"] = http + (how and f"{how}http/1.1")
        fields[f"grpc{end}"] = grpc + (f"{how}h2" if how else " proto h2")
    of_servers = [{**server.addresses, "name": server.name, "id": server.id} for server in servers]
    return "".join(
        _At(line).substitute(fields, **own)
        for line in TEMPLATE.read_text().splitlines(keepends=True)
        for own in (of_servers if "@{name}" in line else [{}])
    )


def duplicates(servers: Sequence[BackendServer]) -> list[str]:
    addresses = [item for server in servers for item in server.addresses.values()]
    return [item for index, item in enumerate(addresses) if item in addresses[:index]]


def checked_host(text: str) -> str:
    """Return a host if it cannot change the meaning of a configuration, else raise a ValueError."""
    if not text:
        raise ValueError("no host in it")
    if not re.fullmatch(r"[-A-Za-z0-9._:]+", text):
        raise ValueError(f"{text!r} is no host")
    return text
