"""`conch deploy`: the configurations of other programs in front of Conch servers."""

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

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

DEFAULT = haproxy.Router()
FORM = "HOST or HOST:http=PORT,grpc=PORT,gateway=PORT"

Value = TypeVar("Value")


def _checked(read: Callable[[str], Value], takes: str) -> Callable[[str], Value]:
    """Return an argument type from a function that raises ValueError."""

    def typed(text: str) -> Value:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{takes}: {error}; got {text!r}") from None

    return typed


_server = _checked(haproxy.Server.parse, FORM)
_host = _checked(lambda text: haproxy.checked_host(text.strip("[]")), "a host")


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
    if text and not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"no such file: {text!r}")
    return text and _word(str(Path(text).absolute()))


def _user(text: str) -> str:
    return text and _word(text)


_megabytes = number("a number of megabytes from 1 to 2000", lambda value: 1 <= value <= 2000)
_PORTS = ("http_port", "grpc_port", "stats_port", "peers_port")
_FLAGS: tuple[tuple[str, Callable[[str], Any], str, str], ...] = (
    ("gateway", _address, "HOST:PORT", "public address: files, WebSockets and the page"),
    ("host", _host, "HOST", "address of the ports for Triton's protocol, which have no keys"),
    ("http_port", _port, "PORT", "of Triton's HTTP"),
    ("grpc_port", _port, "PORT", "of Triton's gRPC"),
    (
        *("tls_cert", _file, "FILE"),
        "TLS, except for `--host` on loopback: certificate chain and private key in one file",
    ),
    ("max_body_mb", _megabytes, "N", "largest body over HTTP; give `conch serve` the same"),
    ("stats_port", _port, "PORT", "on loopback, of HAProxy's own page and /metrics"),
    ("peers_port", _port, "PORT", "on loopback, which hands streams on at a reload"),
    ("admin_socket", _word, "FILE", "socket for commands, such as to drain a server"),
    ("user", _user, "USER", "user and group of HAProxy; '' keeps those of its caller"),
)
"""Field of `Router`, type, form and help."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the command to those of `conch`."""
    parser = subparsers.add_parser(
        "deploy",
        help="write the configuration of a router in front of several servers",
        description="Write configurations of other programs around Conch.",
        epilog="`conch deploy haproxy --help` explains it and shows examples.",
    )
    parser = parser.add_subparsers(metavar="WHAT", dest="what", required=True).add_parser(
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
    for name, kind, form, help in _FLAGS:
        default = getattr(DEFAULT, name)
        parser.add_argument(
            _flag(name),
            type=kind,
            default=haproxy.address(*default) if name == "gateway" else default,
            metavar=form,
            help=f"{help} (default: %(default)s)" if default else help,
        )
    parser.add_argument(
        "--trust-network",
        action="store_true",
        help="allow --host beyond this machine: everybody who reaches it is trusted",
    )
    parser.set_defaults(run=run, usage_error=parser.error)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def run(args: argparse.Namespace) -> int:
    """Write the configuration and return the exit code.

    Raises:
        ConfigError: the file exists and is not from this command, or cannot be written.
    """
    router = haproxy.Router(**{name: getattr(args, name) for name, *_ in _FLAGS})
    if problem := _mistake(args.server, router, args.trust_network):
        args.usage_error(problem)
    command = _command(args.server, router, args.trust_network)
    text = haproxy.haproxy_config(args.server, router, command)
    if args.out is None:
        sys.stdout.write(text)
    else:
        _write(args.out, text)
        print(
            f"conch deploy: wrote {args.out}; check it: haproxy -c -f {args.out}", file=sys.stderr
        )
    return 0


def _mistake(
    servers: Sequence[haproxy.Server] | None, router: haproxy.Router, is_trusted: bool
) -> str | None:
    """Return why the arguments do not fit together; None if they do."""
    from conch.client.address import is_loopback

    if not servers:
        return (
            f"--server is missing: give {FORM} for each Conch server, as in "
            "--server 10.0.0.1 --server 10.0.0.2"
        )
    if twice := haproxy.duplicates(servers):
        return f"--server: {', '.join(twice)} is given more than once; every server has its own"
    if not is_loopback(router.host) and not is_trusted:
        return (
            f"--host {router.host} would open Triton's ports to a network, and they have no keys: "
            f"open the gateway instead, by --gateway {router.host}:9000. Where everybody who "
            "reaches this machine is trusted, add --trust-network"
        )
    ports = {_flag(name): getattr(router, name) for name in _PORTS}
    ports = {"--gateway": router.gateway[1], **ports}
    for port in ports.values():
        if len(same := [flag for flag in ports if ports[flag] == port]) > 1:
            return f"{' and '.join(same)} are both {port}; each needs a port of its own"
    return None


def _command(servers: Sequence[haproxy.Server], router: haproxy.Router, is_trusted: bool) -> str:
    """Return the command line: the arguments that are not defaults, without --out."""
    words = ["conch", "deploy", "haproxy"]
    for server in servers:
        words += ["--server", server.text]
    for name, *_ in _FLAGS:
        if (value := getattr(router, name)) != getattr(DEFAULT, name):
            text = f"{value:g}" if isinstance(value, float) else str(value)
            words += [_flag(name), haproxy.address(*value) if name == "gateway" else text]
    return shlex.join(words + ["--trust-network"] * is_trusted)


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all; replace only a file that this command made.

    Raises:
        ConfigError: the file is not from this command, or cannot be written.
    """
    try:
        if path.exists() and not path.read_text(errors="replace").startswith(haproxy.MARK):
            raise ConfigError(
                f"--out {path}: this file was not made by `conch deploy haproxy`, and stays as it "
                "is; move it away, or write to another one"
            )
        partial = path.with_name(f".{path.name}.part")
        partial.write_text(text)
        partial.replace(path)
    except OSError as failure:
        raise ConfigError(f"--out {path}: {failure.strerror}") from None
