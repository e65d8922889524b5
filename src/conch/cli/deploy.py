"""`conch deploy`: the configurations of other programs in front of Conch servers."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conch.cli.arguments import (
    Subparsers,
    UsageError,
    add_command,
    add_flags,
    address,
    number,
    output,
    whole,
)
from conch.deploy import haproxy
from conch.whole import write_whole
from conch.wire.errors import ConfigError
from conch.wire.hosts import host_port, is_loopback

EPILOG = """\
examples:
  conch deploy haproxy --server gpu-1 --server gpu-2 --server gpu-3 --out haproxy.cfg
      three machines, each with `conch serve --gateway 0.0.0.0:9000 --host 0.0.0.0
      --trust-network`; the router listens on 127.0.0.1: 9000 gateway, 8000 HTTP, 8001 gRPC
  conch deploy haproxy --server gpu-1 --server gpu-2 --gateway 0.0.0.0:443 --tls-cert speech.pem
      the gateway for other machines, with TLS; Triton's ports stay on 127.0.0.1
  conch deploy haproxy --server 10.0.0.5:http=8010,grpc=8011,gateway=9010 --server 10.0.0.5
      two servers on one machine; the other ports are the defaults of `conch serve`
  haproxy -c -f haproxy.cfg
      check it
  install -m 644 haproxy.cfg /etc/haproxy/haproxy.cfg && systemctl reload haproxy
      use it
  echo "set server servers/gpu-1 state drain" | socat stdio /run/haproxy/admin.sock
      no new stream or recording for gpu-1; its streams go on

A live stream stays on the server of its first chunk: each chunk carries the header conch-stream.
docs/guide/protocol.md explains it for clients in other languages. A recording goes to the server
with the fewest connections. docs/guide/cluster.md says what is lost when a machine dies.

exit codes: 0 written, 1 not written, 2 wrong usage
"""

PORTS = ("http_port", "grpc_port", "stats_port", "peers_port")
FORM = "HOST or HOST:http=PORT,grpc=PORT,gateway=PORT"


def _server(text: str) -> haproxy.BackendServer:
    try:
        return haproxy.BackendServer.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{FORM}: {error}; got {text!r}") from None


def _host(text: str) -> str:
    try:
        return haproxy.checked_host(text.strip("[]"))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"a host: {error}; got {text!r}") from None


_port = whole(1, haproxy.MAX_PORT)


def _address(text: str) -> tuple[str, int]:
    host, port = address(text, least=1)
    return _host(host), port


def _word(text: str) -> str:
    if not text or any(c.isspace() or c in "\"'\\#${}" for c in text):
        raise argparse.ArgumentTypeError(f"without spaces, quotes or $; got {text!r}")
    return text


def _file(text: str) -> str:
    if text and not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"no such file: {text!r}")
    return text and _word(str(Path(text).absolute()))


FLAGS = f"""
--server HOST[:PORTS]...      a Conch server, {FORM}; one for each
--out FILE                    write it there, in place of an earlier one (default: standard output)
--gateway HOST:PORT=127.0.0.1:9000  public address: files, WebSockets and the page
--host HOST=127.0.0.1         address of the ports for Triton's protocol, which have no keys
--http-port PORT=8000         of Triton's HTTP
--grpc-port PORT=8001         of Triton's gRPC
--tls-cert FILE               TLS, except for `--host` on loopback: certificate chain and private
                              key in one file
--max-body-mb N=200           largest body over HTTP; give `conch serve` the same
--stats-port PORT=8404        on loopback, of HAProxy's own page and /metrics
--peers-port PORT=8405        on loopback, which hands streams on at a reload
--admin-socket FILE=/run/haproxy/admin.sock         socket for commands, such as to drain a server
--user USER=haproxy              user and group of HAProxy; '' keeps those of its caller
--trust-network               allow --host beyond this machine: everybody who reaches it is trusted
"""
TYPES: dict[str, Any] = {
    "gateway": _address,
    "host": _host,
    "tls_cert": (_file, ""),
    "max_body_mb": number("a number of megabytes from 1 to 2000", lambda value: 1 <= value <= 2000),
    "admin_socket": _word,
    "user": lambda text: text and _word(text),
    **dict.fromkeys(PORTS, _port),
}
"""Argument types by field of `Router`."""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "deploy",
        help="write the configuration of a router in front of several servers",
        description="Write configurations of other programs around Conch.",
        epilog="`conch deploy haproxy --help` explains it and shows examples.",
    )
    parser = add_command(
        parser.add_subparsers(metavar="WHAT", dest="what", required=True),
        "haproxy",
        run,
        help="HAProxy 2.6 or later, as in Debian 12",
        description="Write the configuration of an HAProxy in front of several Conch servers.",
        epilog=EPILOG,
    )
    add_flags(parser, FLAGS, server=_server, out=output, **TYPES)


def run(args: argparse.Namespace) -> int:
    router = haproxy.Router(**{name: getattr(args, name) for name in TYPES})
    _check(args.server, router, args.trust_network)
    command = shlex.join(["conch", *sys.argv[1:]]).replace("\n", " ")
    text = haproxy.haproxy_config(args.server, router, command)
    if args.out is None:
        sys.stdout.write(text)
    else:
        _write(args.out, text)
        print(
            f"conch deploy: wrote {args.out}; check it: haproxy -c -f {args.out}", file=sys.stderr
        )
    return 0


def _check(
    servers: Sequence[haproxy.BackendServer], router: haproxy.Router, is_trusted: bool
) -> None:
    if not servers:
        raise UsageError(
            f"--server is missing: give {FORM} for each Conch server, as in "
            "--server 10.0.0.1 --server 10.0.0.2"
        )
    if twice := haproxy.duplicates(servers):
        raise UsageError(
            f"--server: {', '.join(twice)} is given more than once; every server has its own"
        )
    if not is_loopback(router.host) and not is_trusted:
        raise UsageError(
            f"--host {router.host} would open Triton's ports to a network, and they have no keys: "
            "open the gateway instead, by --gateway "
            f"{host_port(router.host, 9000)}. Where everybody who reaches this machine is trusted, "
            "add --trust-network"
        )
    flags: dict[int, str] = {router.gateway[1]: "--gateway"}
    for name in PORTS:
        port, flag = getattr(router, name), f"--{name.replace('_', '-')}"
        if (other := flags.setdefault(port, flag)) != flag:
            raise UsageError(f"{other} and {flag} are both {port}; each needs a port of its own")


def _write(path: Path, text: str) -> None:
    try:
        if path.exists() and not path.read_text(errors="replace").startswith(haproxy.MARK):
            raise ConfigError(
                f"--out {path}: this file was not made by `conch deploy haproxy`, and stays as it "
                "is; move it away, or write to another one"
            )
        write_whole(path, text)
    except OSError as failure:
        raise ConfigError(f"--out {path}: {failure.strerror}") from None
