"""Flags of a gateway, for `conch gateway` and `conch serve`."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from conch.cli.arguments import number, positive
from conch.wire.errors import ConfigError

if TYPE_CHECKING:
    from conch.gateway import GatewayConfig

DEFAULT_ADDRESS = "127.0.0.1:9000"
MAX_PORT = 65_535


def address(text: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`, `:PORT` or `PORT`.

    Raises:
        argparse.ArgumentTypeError: the text is none of these.
    """
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > MAX_PORT:
        raise argparse.ArgumentTypeError(
            f"HOST:PORT, with a port from 0 to {MAX_PORT}; got {text!r}"
        )
    return host.strip("[]") or "127.0.0.1", int(port)


def add_gateway_flags(parser: argparse.ArgumentParser, flag: str) -> None:
    """Add the flags of a gateway.

    Args:
        parser: Parser to extend.
        flag: Name of the flag for its address.
    """
    group = parser.add_argument_group("gateway", "The one port that may be public.")
    group.add_argument(
        flag,
        dest="gateway_address",
        type=address,
        default=DEFAULT_ADDRESS,
        metavar="HOST:PORT",
        help="address to listen on; port 0 takes any free port (default: %(default)s)",
    )
    group.add_argument(
        "--keys",
        type=Path,
        metavar="FILE",
        help="API keys, as `conch gateway keys` writes them (default: its file, if it exists)",
    )
    group.add_argument(
        "--open",
        action="store_true",
        help="serve an address other than loopback without keys, to anyone who reaches it",
    )
    group.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate chain, PEM")
    group.add_argument("--tls-key", type=Path, metavar="FILE", help="its private key, PEM")
    group.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="origin of web pages that may use it (CORS), as https://example.com; * for all; may "
        "be given several times",
    )
    group.add_argument(
        "--model-alias",
        action="append",
        default=[],
        type=_alias,
        metavar="NAME=MODEL",
        help="a further name of a model, as whisper-large-v3=conch; may be given several times",
    )
    for name, kind, default, what in _LIMITS:
        group.add_argument(
            f"--{name}",
            type=kind,
            default=default,
            metavar="N",
            help=f"{what} (default: %(default)g)",
        )


def given_gateway_flag(args: argparse.Namespace, parser: argparse.ArgumentParser) -> str | None:
    """Return a flag of the gateway whose value is not its default, None if there is none."""
    named = ("keys", "open", "tls-cert", "tls-key", "allow-origin", "model-alias")
    for flag in (*named, *(name for name, *_ in _LIMITS)):
        name = flag.replace("-", "_")
        if getattr(args, name) != parser.get_default(name):
            return f"--{flag}"
    if args.gateway_address != address(DEFAULT_ADDRESS):
        return "--gateway"
    return None


def _alias(text: str) -> tuple[str, str]:
    name, _, model = text.partition("=")
    if not (name and model):
        raise argparse.ArgumentTypeError(f"NAME=MODEL; got {text!r}")
    return name, model


_SECONDS = number("a number of seconds from 0", lambda value: 0 <= value < 1e6)
_ANY = number("a number of megabytes from 0", lambda value: 0 <= value < 1e9)
_MEGABYTES = number("a number of megabytes from 1 to 2000", lambda value: 1 <= value <= 2000)
_LIMITS: tuple[tuple[str, Callable[[str], float], float, str], ...] = (
    ("max-body-mb", _MEGABYTES, 200, "largest file, in megabytes"),
    ("max-upload-mb", _ANY, 0, "megabytes of all uploads at once; 0 is a quarter of the memory"),
    ("max-audio-s", _SECONDS, 0, "longest file, in seconds of audio; 0 is the server's limit"),
    ("max-files", positive, 64, "files at once; one more is refused with 503"),
    ("max-sessions", positive, 256, "live sessions at once; one more is refused with 503"),
    ("drain-s", _SECONDS, 30, "seconds for running requests to finish after a stop"),
)
"""Name, type, default and meaning of the flags for limits."""


def gateway_config(args: argparse.Namespace) -> "GatewayConfig":
    """Return the configuration that the flags give, with the default server.

    Raises:
        ConfigError: a file of keys was named and does not exist, or a model alias is unknown.
    """
    from conch.gateway import GatewayConfig
    from conch.gateway.keys import default_keys_file
    from conch.gateway.models import PATHS

    if args.keys is not None and not args.keys.is_file():
        raise ConfigError(
            f"no keys file {args.keys}: conch gateway keys add NAME --keys {args.keys} makes it"
        )
    aliases = dict(args.model_alias)
    for alias, model in aliases.items():
        if model not in PATHS:
            raise ConfigError(f"--model-alias {alias}={model}: the models are {', '.join(PATHS)}")
    host, port = args.gateway_address
    return GatewayConfig(
        host=host,
        port=port,
        keys_file=args.keys or default_keys_file(),
        is_open=args.open,
        tls_cert=args.tls_cert,
        tls_key=args.tls_key,
        allowed_origins=tuple(args.allow_origin),
        model_aliases=aliases,
        max_body_mb=args.max_body_mb,
        max_upload_mb=args.max_upload_mb,
        max_audio_s=args.max_audio_s,
        max_files=args.max_files,
        max_sessions=args.max_sessions,
        drain_s=args.drain_s,
    )
