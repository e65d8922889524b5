"""Flags of a gateway, for `conch gateway` and `conch serve`."""

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from conch.cli.arguments import add_flags, host_and_port, number, positive
from conch.wire.errors import ConfigError

if TYPE_CHECKING:
    from conch.gateway import GatewayConfig

DEFAULT_ADDRESS = "127.0.0.1:9000"
MAX_PORT = 65_535


def address(text: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`, `:PORT` or `PORT`."""
    host, port = host_and_port(text)
    if not port.isdecimal() or int(port) > MAX_PORT:
        raise argparse.ArgumentTypeError(
            f"HOST:PORT, with a port from 0 to {MAX_PORT}; got {text!r}"
        )
    return host, int(port)


FLAGS = """
--keys FILE                  API keys, as `conch gateway keys` writes them (default: its file, if
                             it exists)
--open                       serve an address other than loopback without keys, to anyone who
                             reaches it
--tls-cert FILE              certificate chain, PEM
--tls-key FILE               its private key, PEM
--wyoming HOST:PORT          serve the Wyoming protocol too, of Home Assistant; it has no keys, so
                             addresses beyond loopback need --open
--wyoming-languages CODES    languages that its clients are told, as en,de (default: en, or those
                             of the Whisper that conch serve starts)
--riva HOST:PORT             serve Riva's gRPC API too, for clients of NVIDIA Riva; keys, TLS and
                             limits hold there as well
--allow-origin ORIGIN...     origin of web pages that may use it (CORS), as https://example.com; *
                             for all
--model-alias NAME=MODEL...  a further name of a model, as whisper-large-v3=conch
--max-body-mb N=200          largest file, in megabytes
--max-upload-mb N=0          megabytes of all uploads at once; 0 is a quarter of the memory
--max-audio-s N=0            longest file, in seconds of audio; 0 is the server's limit
--max-files N=64             files at once; one more is refused with 503
--max-sessions N=256         live sessions at once; one more is refused with 503
--drain-s N=30               seconds for running requests to finish after a stop
"""


def add_gateway_flags(parser: argparse.ArgumentParser, *flags: str) -> None:
    """Add the flags of a gateway; `flags` are the names of the one for its address."""
    group = parser.add_argument_group("gateway", "The one port that may be public.")
    group.add_argument(
        *flags,
        dest="gateway_address",
        type=address,
        default=DEFAULT_ADDRESS,
        metavar="HOST:PORT",
        help="address to listen on; port 0 takes any free port (default: %(default)s)",
    )
    seconds = number("a number of seconds from 0", lambda value: 0 <= value < 1e6)
    some = number("a number of megabytes from 1 to 2000", lambda value: 1 <= value <= 2000)
    kinds = {
        **dict.fromkeys(("keys", "tls_cert", "tls_key"), Path),
        **dict.fromkeys(("max_audio_s", "drain_s"), seconds),
        **dict.fromkeys(("max_files", "max_sessions"), positive),
        "model_alias": _alias,
        "wyoming": address,
        "wyoming_languages": _languages,
        "riva": address,
        "max_body_mb": some,
        "max_upload_mb": number("a number of megabytes from 0", lambda value: 0 <= value < 1e9),
    }
    add_flags(group, FLAGS, **kinds)


def given_gateway_flag(args: argparse.Namespace, parser: argparse.ArgumentParser) -> str | None:
    """Return a flag of the gateway whose value is not its default, None if there is none."""
    defaults = parser.parse_args([])
    for flag in re.findall(r"^--(\S+)", FLAGS, re.MULTILINE):
        name = flag.replace("-", "_")
        if getattr(args, name) != getattr(defaults, name):
            return f"--{flag}"
    return "--gateway" if args.gateway_address != defaults.gateway_address else None


def _alias(text: str) -> tuple[str, str]:
    name, _, model = text.partition("=")
    if not (name and model):
        raise argparse.ArgumentTypeError(f"NAME=MODEL; got {text!r}")
    return name, model


def _languages(text: str) -> tuple[str, ...]:
    from conch.wire.languages import LANGUAGES, code_of

    found = tuple(code_of(item) for item in text.split(","))
    if unknown := [code for code in found if code not in LANGUAGES]:
        raise argparse.ArgumentTypeError(f"codes such as en,de; got {unknown[0]!r:.40}")
    return found


def gateway_config(args: argparse.Namespace) -> "GatewayConfig":
    """Return the configuration that the flags give, with the default server."""
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
    limits = ("max_body_mb", "max_upload_mb", "max_audio_s", "max_files", "max_sessions", "drain_s")
    return GatewayConfig(
        host=host,
        port=port,
        keys_file=args.keys or default_keys_file(),
        is_open=args.open,
        tls_cert=args.tls_cert,
        tls_key=args.tls_key,
        allowed_origins=tuple(args.allow_origin),
        model_aliases=aliases,
        wyoming=args.wyoming,
        languages=args.wyoming_languages or ("en",),
        riva=args.riva,
        **{name: getattr(args, name) for name in limits},
    )
