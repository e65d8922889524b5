"""`conch deploy`: the configurations of other programs in front of Conch servers."""

import argparse
import os
import shlex
import sys
import tempfile
from pathlib import Path

from conch.cli.arguments import Subparsers, number, output
from conch.deploy import haproxy
from conch.wire.errors import ConfigError

EPILOG = """\
examples:
  conch deploy haproxy --server gpu-1 --server gpu-2 --server gpu-3 --out haproxy.cfg
      three machines, each with `conch serve --gateway 0.0.0.0:9000 --host 0.0.0.0
      --trust-network`; the router listens on 127.0.0.1: 9000 gateway, 8000 HTTP, 8001 gRPC
  conch deploy haproxy --server gpu-1 --server gpu-2 --gateway 0.0.0.0:443 --tls-cert speech.pem
      the gateway for other machines, with TLS; Triton's ports stay on 127.0.0.1
  conch deploy haproxy --server 10.0.0.5:http=8010,grpc=8011,gateway=9010 --server 10.0.0.5
      two servers on one machine; a port that is not named is that of `conch serve`
  haproxy -c -f haproxy.cfg
      check it
  install -m 644 haproxy.cfg /etc/haproxy/haproxy.cfg && systemctl reload haproxy
      use it
  echo "set server servers/gpu-1 state drain" | socat stdio /run/haproxy/admin.sock
      no new stream or recording for gpu-1; its streams go on

A live stream stays on the server that has its first chunk, by the header conch-stream that each
chunk carries; docs/guide/protocol.md tells clients of other languages. A recording goes to the
server with the fewest. docs/guide/cluster.md tells what is lost when what dies.

exit codes: 0 written, 1 not written, 2 wrong usage
"""

DEFAULT = haproxy.Router()
FORM = "HOST or HOST:http=PORT,grpc=PORT,gateway=PORT"


def add_parser(subparsers: Subparsers) -> None:
    """Add the command to those of `conch`."""
    parser = subparsers.add_parser(
        "deploy",
        help="write the configuration of a router in front of several servers",
        description="Write configurations of other programs around Conch.",
        epilog="`conch deploy haproxy --help` explains it and shows examples.",
    )
    _add_haproxy(parser.add_subparsers(metavar="WHAT", dest="what", required=True))


def _add_haproxy(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "haproxy",
        help="HAProxy 2.6 or later, as in Debian 12",
        description="Write the configuration of an HAProxy in front of several Conch servers.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--server",
        action="append",
        type=_server,
        metavar="HOST[:PORTS]",
        help=f"a Conch server, {FORM}; give one for each",
    )
    parser.add_argument(
        "--out",
        type=output,
        metavar="FILE",
        help="write it there, in place of an earlier one (default: standard output)",
    )
    _add_places(parser.add_argument_group("where the router listens"))
    more = parser.add_argument_group("more")
    more.add_argument(
        "--max-body-mb",
        type=number("a number of megabytes from 1 to 2000", lambda value: 1 <= value <= 2000),
        default=200,
        metavar="N",
        help="largest body over HTTP; give `conch serve` the same (default: %(default)g)",
    )
    more.add_argument(
        "--admin-socket",
        type=_word,
        default=DEFAULT.admin_socket,
        metavar="FILE",
        help="socket for commands, such as to drain a server (default: %(default)s)",
    )
    more.add_argument(
        "--user",
        type=lambda text: _word(text) if text else "",
        default=DEFAULT.user,
        help="user and group as which HAProxy runs; '' for those who start it "
        "(default: %(default)s)",
    )
    parser.set_defaults(run=run, usage_error=parser.error)


def _add_places(group: "argparse._ActionsContainer") -> None:
    group.add_argument(
        "--gateway",
        type=_address,
        default="127.0.0.1:9000",
        metavar="HOST:PORT",
        help="for everybody: files, WebSockets and the page (default: %(default)s)",
    )
    group.add_argument(
        "--tls-cert",
        type=_file,
        metavar="FILE",
        help="TLS, except for `--host` on loopback: certificate chain and private key in one file",
    )
    group.add_argument(
        "--host",
        type=_host,
        default="127.0.0.1",
        help="address of the ports for Triton's protocol, which have no keys "
        "(default: %(default)s)",
    )
    group.add_argument(
        "--trust-network",
        action="store_true",
        help="allow --host beyond this machine: everybody who reaches it is trusted",
    )
    for flag, port, what in (
        ("http", DEFAULT.http_port, "of Triton's HTTP"),
        ("grpc", DEFAULT.grpc_port, "of Triton's gRPC"),
        ("stats", DEFAULT.stats_port, "on loopback, of HAProxy's own page and /metrics"),
        ("peers", DEFAULT.peers_port, "on loopback, which hands streams on at a reload"),
    ):
        group.add_argument(
            f"--{flag}-port",
            type=_port,
            default=port,
            metavar="PORT",
            help=f"{what} (default: %(default)s)",
        )


def _server(text: str) -> haproxy.Server:
    try:
        return haproxy.Server.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{FORM}: {error}; got {text!r}") from None


def _host(text: str) -> str:
    try:
        return haproxy.checked_host(text.strip("[]"))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"a host: {error}; got {text!r}") from None


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= haproxy.MAX_PORT:
        raise argparse.ArgumentTypeError(f"a port from 1 to {haproxy.MAX_PORT}; got {text!r}")
    return int(text)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return _host(host or "127.0.0.1"), _port(port)


def _word(text: str) -> str:
    if not text or any(c.isspace() or c in "\"'\\#${}" for c in text):
        raise argparse.ArgumentTypeError(f"without spaces, quotes or $; got {text!r}")
    return text


def _file(text: str) -> str:
    if not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"no such file: {text!r}")
    return _word(str(Path(text).absolute()))


def run(args: argparse.Namespace) -> int:
    """Write the configuration and return the exit code.

    Raises:
        ConfigError: the file is there and not one of this command, or cannot be written.
    """
    _check(args)
    router = haproxy.Router(
        gateway=args.gateway,
        host=args.host,
        http_port=args.http_port,
        grpc_port=args.grpc_port,
        tls_cert=args.tls_cert or "",
        max_body_mb=args.max_body_mb,
        stats_port=args.stats_port,
        peers_port=args.peers_port,
        admin_socket=args.admin_socket,
        user=args.user,
    )
    text = haproxy.haproxy_config(args.server, router, _command(args))
    if args.out is None:
        sys.stdout.write(text)
    else:
        _write(args.out, text)
        print(
            f"conch deploy: wrote {args.out}; check it: haproxy -c -f {args.out}", file=sys.stderr
        )
    return 0


def _check(args: argparse.Namespace) -> None:
    """End the program with code 2 if what was given does not fit together."""
    from conch.client.address import is_loopback

    if not args.server:
        args.usage_error(
            f"--server is missing: give {FORM} for each Conch server, as in "
            "--server 10.0.0.1 --server 10.0.0.2"
        )
    if twice := haproxy.duplicates(args.server):
        args.usage_error(
            f"--server: {', '.join(twice)} is there more than once; every server has ports of its "
            "own"
        )
    if not is_loopback(args.host) and not args.trust_network:
        args.usage_error(
            f"--host {args.host} would open Triton's ports to a network, and they have no keys: "
            f"open the gateway instead, by --gateway {args.host}:9000. Where everybody who reaches "
            "this machine is trusted, add --trust-network"
        )
    ports = {
        "--gateway": args.gateway[1],
        "--http-port": args.http_port,
        "--grpc-port": args.grpc_port,
        "--stats-port": args.stats_port,
        "--peers-port": args.peers_port,
    }
    for port in ports.values():
        if len(same := [flag for flag in ports if ports[flag] == port]) > 1:
            args.usage_error(f"{' and '.join(same)} are both {port}; each needs a port of its own")


def _command(args: argparse.Namespace) -> str:
    """Return the command line again: what it was given and is no default, without --out."""
    words = ["conch", "deploy", "haproxy"]
    for server in args.server:
        words += ["--server", server.text]
    host, port = args.gateway
    if args.gateway != DEFAULT.gateway:
        words += ["--gateway", f"[{host}]:{port}" if ":" in host else f"{host}:{port}"]
    for name in _SHOWN:
        if (value := getattr(args, name) or "") != getattr(DEFAULT, name):
            text = f"{value:g}" if isinstance(value, float) else str(value)
            words += ["--" + name.replace("_", "-"), text]
    return shlex.join(words + ["--trust-network"] * args.trust_network)


_SHOWN = (
    *("host", "http_port", "grpc_port", "tls_cert", "max_body_mb", "stats_port", "peers_port"),
    *("admin_socket", "user"),
)
"""Fields of `Router` that have a flag of the same name, in the order of the first lines."""


def _write(path: Path, text: str) -> None:
    """Write a whole file or none, and only in place of one that this command has made.

    Raises:
        ConfigError: another file is there, or it cannot be written.
    """
    try:
        if path.exists() and not path.read_text(errors="replace").startswith(haproxy.MARK):
            raise ConfigError(
                f"--out {path}: this file was not made by `conch deploy haproxy`, and stays as it "
                "is; move it away, or write to another one"
            )
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            file.write(text)
        os.chmod(file.name, 0o644)
        os.replace(file.name, path)
    except OSError as failure:
        raise ConfigError(f"--out {path}: {failure.strerror}") from None
