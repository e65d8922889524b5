"""The configuration of an HAProxy 2.6 in front of several Conch servers.

A stream lives in one server. Each of its chunks carries the stream's id in the header
`conch-stream` (metadata over gRPC). Consistent hashing (Karger et al., 1997) of that id chooses a
server, and a table keeps the choice as long as chunks come. So another server, or one that is
drained, moves no stream that is open.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

MARK = "# Made by `conch deploy haproxy`"
"""Beginning of every configuration of this module."""

DEFAULT_PORTS = {"http": 8000, "grpc": 8001, "gateway": 9000}
"""The ports of `conch serve`."""
MAX_PORT = 65_535

MAX_JSON_MB = 100
"""Largest JSON body for Triton, which a larger one can end; audio as bytes may be longer."""

_LOST = "NO_SESSION: the server of this stream is lost; send START"
_NO_SERVER = "OVERLOADED: no speech server is ready; try again in 5 s"
_BROKEN = "Socket closed behind the router; send the request again"


@dataclass(frozen=True, slots=True)
class Server:
    """One Conch server."""

    host: str
    """Name or address; IPv6 without brackets."""
    http_port: int = DEFAULT_PORTS["http"]
    grpc_port: int = DEFAULT_PORTS["grpc"]
    gateway_port: int = DEFAULT_PORTS["gateway"]

    @classmethod
    def parse(cls, text: str) -> "Server":
        """Read `HOST[:http=PORT,grpc=PORT,gateway=PORT]`; a port that is left out is the default.

        Raises:
            ValueError: the text is nothing like that; the message says what is wrong with it.
        """
        host, ports_text = _host_and_ports(text)
        checked_host(host)
        ports: dict[str, int] = {}
        for item in ports_text.split(",") if ports_text is not None else ():
            name, equals, port = item.strip().partition("=")
            if not equals or name not in DEFAULT_PORTS:
                raise ValueError(f"{item!r} does not say which port it is, as gateway=9000 does")
            if name in ports:
                raise ValueError(f"{name} is there twice")
            ports[name] = _port(name, port)
        named = {**DEFAULT_PORTS, **ports}
        for port_number in named.values():
            if len(same := [name for name in named if named[name] == port_number]) > 1:
                raise ValueError(f"{' and '.join(same)} have the same port, {port_number}")
        return cls(host, named["http"], named["grpc"], named["gateway"])

    @property
    def name(self) -> str:
        """What HAProxy calls it, from nothing but itself: tables know a server by its name."""
        if self == Server(self.host):
            return self.host
        return f"{self.host}-{self.gateway_port}-{self.http_port}-{self.grpc_port}"

    @property
    def id(self) -> int:
        """Number of its name, which places it in the hashing, whatever stands beside it."""
        return zlib.crc32(self.name.encode()) >> 1 or 1

    @property
    def text(self) -> str:
        """What `parse` reads it from."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        if self == Server(self.host):
            return host
        return f"{host}:http={self.http_port},grpc={self.grpc_port},gateway={self.gateway_port}"

    def address(self, port: int) -> str:
        """Return host and port as HAProxy reads them; an IPv6 host has brackets."""
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"


@dataclass(frozen=True, slots=True)
class Router:
    """Where the router listens, and its limits."""

    gateway: tuple[str, int] = ("127.0.0.1", DEFAULT_PORTS["gateway"])
    """Host and port for everybody: files, WebSockets and the page."""
    host: str = "127.0.0.1"
    """Host of the router's ports for Triton's protocol, which have no keys."""
    http_port: int = DEFAULT_PORTS["http"]
    grpc_port: int = DEFAULT_PORTS["grpc"]
    tls_cert: str = ""
    """File with certificate chain and private key, PEM; empty for no TLS.

    The ports of Triton's protocol have none on loopback."""
    max_body_mb: float = 200
    """Largest body of a request over HTTP, in megabytes of 2^20 bytes."""
    stats_port: int = 8404
    """Port on loopback of the page with figures, and of Prometheus' metrics."""
    peers_port: int = 8405
    """Port on loopback by which the table goes from one process to the next at a reload."""
    admin_socket: str = "/run/haproxy/admin.sock"
    """Socket for commands, such as to drain a server."""
    user: str = "haproxy"
    """User and group as which HAProxy runs; empty for those who start it."""


def duplicates(servers: Sequence[Server]) -> list[str]:
    """Return the addresses that more than one of the servers has."""
    seen: set[str] = set()
    found = []
    for server in servers:
        ports = (server.http_port, server.grpc_port, server.gateway_port)
        for address in map(server.address, ports):
            if address in seen:
                found.append(address)
            seen.add(address)
    return found


def haproxy_config(servers: Sequence[Server], router: Router, command: str) -> str:
    """Return the text of a configuration.

    Args:
        servers: At least one, without `duplicates`.
        router: Where it listens.
        command: The command line that made it, for its first lines.
    """
    parts = (
        _head(command),
        _general(router),
        _health(servers),
        _gateway(servers, router),
        _triton_http(servers, router),
        _triton_grpc(servers, router),
    )
    return "\n".join(parts)


def checked_host(text: str) -> str:
    """Return a host, as a part of a configuration that it cannot change.

    Raises:
        ValueError: it is empty, or has characters that no name or address has.
    """
    if not text:
        raise ValueError("no host in it")
    if not all(c.isascii() and (c.isalnum() or c in "-._:") for c in text):
        raise ValueError(f"{text!r} is no host")
    return text


def _host_and_ports(text: str) -> tuple[str, str | None]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError("an IPv6 host is in brackets, [fd00::1]")
        return host, rest[1:] if rest else None
    host, colon, ports = text.partition(":")
    if ":" in ports and "=" not in ports:
        raise ValueError("an IPv6 host is in brackets, [fd00::1]")
    return host, ports if colon else None


def _port(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= MAX_PORT:
        raise ValueError(f"{name}={text}: a port is a number from 1 to {MAX_PORT}")
    return int(text)


def _lines(servers: Sequence[Server], port: str, more: str) -> str:
    """Return the lines `server` of a backend, whose health is that in the backend `servers`."""
    return "\n".join(
        f"    server {server.name} {server.address(getattr(server, port))} "
        f"id {server.id} {more.format(name=server.name)}".rstrip()
        for server in servers
    )


def _head(command: str) -> str:
    return f"""\
{MARK}: to change it, run this again.
#   {command}
# docs/guide/cluster.md explains it. Check it with: haproxy -c -f FILE
"""


def _general(router: Router) -> str:
    user = f"    user {router.user}\n    group {router.user}\n" if router.user else ""
    return f"""\
global
    log stderr format raw daemon
{user}    stats socket {router.admin_socket} mode 660 level admin
    localpeer router
    # At a reload clients come over one after the other, when the table is there already.
    close-spread-time 10s
    # One client's connection carries the chunks of many streams at once.
    tune.h2.max-concurrent-streams 1000

defaults
    mode http
    log global
    option httplog
    # A line for what went wrong. The servers log the rest.
    option dontlog-normal
    # At a reload a client's next request is still answered on its connection.
    option idle-close-on-response
    option clitcpka
    option srvtcpka
    timeout connect 3s
    timeout http-request 30s
    timeout http-keep-alive 90s
    timeout queue 5s
    timeout check 5s
    # Times without a byte, not of a whole request: streams last for hours.
    timeout client 1h
    timeout server 1h
    timeout tunnel 2m
    # A request goes to a server once. Only a connection that could not be made is tried again,
    # the last time to another server.
    retries 2
    retry-on conn-failure
    option redispatch

# At a reload the new process gets the table of streams from the old one.
peers reload
    bind 127.0.0.1:{router.peers_port}
    server router

frontend figures
    bind 127.0.0.1:{router.stats_port}
    http-request use-service prometheus-exporter if {{ path /metrics }}
    stats enable
    stats uri /
"""


def _health(servers: Sequence[Server]) -> str:
    return f"""\
# No request comes here: its servers are asked whether they are ready, and all backends follow.
# So one command drains a server for all:
#   echo "set server servers/{servers[0].name} state drain" | socat stdio SOCKET
backend servers
    option httpchk
    http-check send meth GET uri /health/ready ver HTTP/1.1 hdr Host localhost
    http-check expect status 200
    default-server check inter 2s fastinter 500ms downinter 1s fall 3 rise 2
{_lines(servers, "gateway_port", "")}
"""


def _gateway(servers: Sequence[Server], router: Router) -> str:
    host, port = router.gateway
    return f"""\
frontend gateway
    bind {_bound(host, port)}{_tls(router, "http/1.1")}
    http-request deny deny_status 404 if {{ path /metrics }}
    http-request deny deny_status 413 if {{ req.body_size gt {_bytes(router.max_body_mb)} }}
    default_backend gateway

backend gateway
    balance leastconn
    # A WebSocket whose server is gone: the gateway sends a ping at least every 30 s.
    option independent-streams
    # A secret for a browser opens sessions at the gateway that made it.
    http-request set-var(txn.makes_secret) bool(true) if METH_POST {{ path /v1/realtime/client_secrets /v1/realtime/transcription_sessions }}
    http-request set-var(txn.secret) 'req.fhdr(sec-websocket-protocol),regsub("^.*openai-insecure-api-key[.]",""),regsub(",.*$","")'
    http-request set-var(txn.secret) req.hdr(authorization),word(2,' ') if {{ req.hdr(authorization) -m found }}
    http-request set-var(txn.home) var(txn.secret),sha2(256),hex,table_gpt0(gateway) if {{ var(txn.secret) -m found }}
    http-response wait-for-body time 5s if {{ var(txn.makes_secret) -m bool }}
    http-response set-var(txn.made) res.body,json_query('$.value') if {{ var(txn.makes_secret) -m bool }}
    http-response set-var(txn.made) res.body,json_query('$.client_secret.value') if {{ var(txn.makes_secret) -m bool }} !{{ var(txn.made) -m found }}
    http-response track-sc0 var(txn.made),sha2(256),hex if {{ var(txn.made) -m found }}
    http-response sc-set-gpt0(0) srv_id if {{ var(txn.made) -m found }}
    stick-table type string len 65 size 100k expire 2h store gpt0 peers reload
{_homes(servers)}
{_lines(servers, "gateway_port", "track servers/{name}")}
"""


def _homes(servers: Sequence[Server]) -> str:
    """Return which server takes a secret that it has made."""
    return "\n".join(
        f"    use-server {server.name} if {{ var(txn.home) -m int {server.id} }}"
        for server in servers
    )


def _triton_http(servers: Sequence[Server], router: Router) -> str:
    json_bytes = MAX_JSON_MB * 10**6
    return f"""\
frontend triton_http
    bind {_bound(router.host, router.http_port)}{_triton_tls(router, "http/1.1")}
    option disable-h2-upgrade
    acl is_live req.hdr(conch-stream) -m found
    acl is_known req.hdr(conch-stream),in_table(http_live) -m bool
    # A process that hands over counts no servers, and has them all the same.
    acl has_no_server nbsrv(servers) eq 0
    acl hands_over stopping
    # So Conch's clients ask whether this is a gateway.
    http-request return status 404 if {{ path /health/live }}
    # Metadata, health and requests; no shared memory, loading, traces or logs.
    http-request deny deny_status 403 unless {{ path_reg ^/v2(/health/(live|ready)|/models/[^/]+(/versions/[0-9]+)?(/(infer|generate|generate_stream|ready|config))?)?$ }}
    # Triton 2.51 is not safe from bodies in chunks of unknown length, and from JSON that is long.
    http-request deny deny_status 400 if METH_POST !{{ req.hdr(content-length) -m found }}
    http-request deny deny_status 413 if {{ req.body_size gt {_bytes(router.max_body_mb)} }}
    http-request deny deny_status 413 if {{ req.body_size gt {json_bytes} }} !{{ req.hdr(inference-header-content-length) -m found }}
    http-request deny deny_status 413 if {{ req.hdr_val(inference-header-content-length) gt {json_bytes} }}
    http-request return status 503 content-type application/json string '{{"error":"{_NO_SERVER}"}}' if has_no_server !hands_over !is_known
    use_backend http_next if is_live hands_over !is_known
    use_backend http_live if is_live
    default_backend http_recordings

backend http_live
{_pinned()}
{_errors_of_http(_LOST)}
{_lines(servers, "http_port", "weight 64 track servers/{name}")}

# At a reload clients keep their connection for some seconds. Streams that begin meanwhile are
# placed by the process that comes next, which knows all servers.
backend http_next
{_errors_of_http(_LOST)}
    server next {_next(router, router.http_port)}

backend http_recordings
    balance leastconn
{_errors_of_http(_BROKEN)}
{_lines(servers, "http_port", "track servers/{name}")}
"""


def _triton_grpc(servers: Sequence[Server], router: Router) -> str:
    return f"""\
frontend triton_grpc
    bind {_bound(router.host, router.grpc_port)}{_triton_tls(router, "h2") or " proto h2"}
    acl is_live req.hdr(conch-stream) -m found
    acl is_known req.hdr(conch-stream),in_table(grpc_live) -m bool
    acl has_no_server nbsrv(servers) eq 0
    acl hands_over stopping
    http-request deny deny_status 403 unless {{ path_reg ^/inference.GRPCInferenceService/(Server(Live|Ready|Metadata)|Model(Ready|Metadata|Config|Infer|StreamInfer))$ }}
    # gRPC reads a status of its own, in headers of an answer that is 200.
    http-after-response set-header content-type application/grpc if {{ res.hdr(conch-router) -m found }}
    http-after-response set-status 200 if {{ res.hdr(conch-router) -m found }}
    http-request return status 503 hdr conch-router full hdr grpc-status 14 hdr grpc-message '{_NO_SERVER}' if has_no_server !hands_over !is_known
    # A call of ModelStreamInfer is one request, however long it lasts, and stays where it is.
    use_backend grpc_next if is_live hands_over !is_known {{ path_end /ModelInfer }}
    use_backend grpc_live if is_live {{ path_end /ModelInfer }}
    default_backend grpc_recordings

backend grpc_live
{_pinned()}
{_errors_of_grpc(3, _LOST)}
{_lines(servers, "grpc_port", "proto h2 weight 64 track servers/{name}")}

backend grpc_next
{_errors_of_grpc(3, _LOST)}
    server next {_next(router, router.grpc_port, "proto h2")}

backend grpc_recordings
    balance leastconn
    # On a connection of its own, as an answer that is read slowly holds up what shares it.
    http-reuse never
{_errors_of_grpc(14, _BROKEN)}
{_lines(servers, "grpc_port", "proto h2 track servers/{name}")}
"""


def _pinned() -> str:
    """Return how the server of a live chunk is chosen.

    A chunk goes to the server of its stream even while that one is called down, as a busy server
    may be late to say that it is ready. Who connects to nothing is sent elsewhere, and so to the
    answer that its stream is unknown.
    """
    return """\
    balance hdr(conch-stream)
    hash-type consistent sdbm avalanche
    stick-table type string len 128 size 200k expire 5m srvkey name peers reload
    stick on req.hdr(conch-stream)
    # Also while the server is late to say that it is ready.
    option persist
    timeout server 60s"""


def _errors_of_http(text: str) -> str:
    """Return answers in place of HAProxy's own pages, as Triton would write them."""
    body = f"""content-type application/json string '{{"error":"{text}"}}'"""
    lines = [f"http-error status {status} {body} hdr conch-router lost" for status in _LOST_STATUS]
    if text.startswith("NO_SESSION"):
        lines.append("http-after-response set-status 400 if { res.hdr(conch-router) -m found }")
    return "\n".join(f"    {line}" for line in lines)


def _errors_of_grpc(status: int, text: str) -> str:
    """Return answers in place of HAProxy's own pages, as gRPC wants them: a status in a header."""
    headers = f"hdr grpc-status {status} hdr grpc-message '{text}'"
    lines = [f"http-error status {code} {headers} hdr conch-router lost" for code in _LOST_STATUS]
    return "\n".join(f"    {line}" for line in lines)


_LOST_STATUS = (502, 503, 504)
"""What HAProxy answers for a server that broke off, cannot be reached, or is silent."""


def _bound(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _tls(router: Router, protocol: str) -> str:
    return f" ssl crt {router.tls_cert} alpn {protocol}" if router.tls_cert else ""


def _triton_tls(router: Router, protocol: str) -> str:
    # Imported here, so that `conch --help` does not wait for numpy.
    from conch.client.address import is_loopback

    return "" if is_loopback(router.host) else _tls(router, protocol)


def _next(router: Router, port: int, plain: str = "") -> str:
    """Return where the next process listens, and how it is spoken to."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(router.host, router.host)
    protocol = "h2" if plain else "http/1.1"
    is_secure = bool(_triton_tls(router, protocol))
    return f"{_bound(host, port)} {f'ssl verify none alpn {protocol}' if is_secure else plain}".rstrip()


def _bytes(megabytes: float) -> int:
    return round(megabytes * 2**20)
