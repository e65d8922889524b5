"""`conch gateway`: OpenAI's audio API, live WebSockets and the web page, in front of servers.

`conch serve` takes the flags of a gateway too.
"""

import argparse
import re
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from conch.cli.arguments import Subparsers, add_command, add_flags, address, number, positive
from conch.cli.logs import add_log_flags, announce, with_log
from conch.wire.errors import ConfigError

if TYPE_CHECKING:
    from conch.gateway import GatewayConfig

DEFAULT_ADDRESS = "127.0.0.1:9000"
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
EPILOG = """\
examples:
  conch gateway --url grpc://127.0.0.1:8001
      in front of a server on this machine; the page is at http://127.0.0.1:9000
  conch gateway --url grpc://gpu-1:8001 --url grpc://gpu-2:8001 --listen 0.0.0.0:443 \\
      --tls-cert fullchain.pem --tls-key privkey.pem
      in front of two servers, for everybody with a key
  conch gateway keys add anna --requests-per-minute 60
      make a key, which is shown once; a running gateway takes it at once
  curl -F file=@talk.mp3 http://127.0.0.1:9000/v1/audio/transcriptions

`conch serve` opens a gateway of its own. Keys also come from the environment variable
CONCH_API_KEYS, as name:key,name:key. Without any key only this machine is served.
After Ctrl-C or SIGTERM, running requests have --drain-s seconds to finish.
"""
KEYS_EPILOG = """\
examples:
  conch gateway keys add anna
  conch gateway keys add shop --requests-per-minute 60 --audio-s-per-minute 600 --streams 4
  conch gateway keys list
  conch gateway keys remove anna
"""
SERVERS = "--url URL...  gRPC address of a server (default: grpc://127.0.0.1:8001)"
KEYS_FILE = "--keys FILE  file (default: ~/.config/conch/gateway-keys.json)"
KEY_FLAGS = """
--requests-per-minute N  default: no limit
--audio-s-per-minute S   seconds of audio, of files and live sessions (default: no limit)
--streams N              live sessions at once (no limit)
"""


def add_gateway_flags(parser: argparse.ArgumentParser, *flags: str) -> None:
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
    types = {
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
    add_flags(group, FLAGS, **types)


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

    codes = tuple(code_of(item) for item in text.split(","))
    if unknown := [code for code in codes if code not in LANGUAGES]:
        raise argparse.ArgumentTypeError(f"codes such as en,de; got {unknown[0]!r:.40}")
    return codes


def gateway_config(args: argparse.Namespace) -> "GatewayConfig":
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


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "gateway",
        run,
        help="serve OpenAI's audio API and the web page",
        description="Serve OpenAI's audio API, live WebSockets and a web page in front of servers "
        "of Conch.",
        epilog=EPILOG,
    )
    add_flags(parser, SERVERS)
    add_gateway_flags(parser, "--listen", "--gateway")
    add_log_flags(parser)
    keys = add_command(
        parser.add_subparsers(metavar="keys", dest="what"),
        "keys",
        run,
        help="make, list and remove API keys",
        description="Make, list and remove API keys. The file holds digests, not the keys.",
        epilog=KEYS_EPILOG,
    )
    actions = keys.add_subparsers(metavar="ACTION", dest="action", required=True)
    add = add_command(actions, "add", add_key, help="make a key and show it, once")
    add.add_argument("name", metavar="NAME", type=_name, help="name in logs and metrics")
    seconds = number("a number of seconds above 0", lambda value: value > 0)
    whole = {"requests_per_minute": (positive, 0), "streams": (positive, 0)}
    add_flags(add, KEY_FLAGS, audio_s_per_minute=(seconds, 0.0), **whole)
    remove = add_command(
        actions, "remove", remove_key, help="remove a key; it is refused from then on"
    )
    remove.add_argument("name", metavar="NAME", help="name of the key")
    every = add_command(actions, "list", list_keys, help="list the names and limits of all keys")
    for action in (add, remove, every):
        # A default would hide the value of `conch gateway --keys FILE keys …`.
        add_flags(action, KEYS_FILE, keys=(Path, argparse.SUPPRESS))


def _name(text: str) -> str:
    if not text.isprintable() or not text.strip() or len(text) > 64:
        raise argparse.ArgumentTypeError(f"a name of up to 64 printable characters; got {text!r}")
    return text


def run(args: argparse.Namespace) -> int:
    # A shell's background job would ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return with_log(args, lambda: _serve(args))


def _serve(args: argparse.Namespace) -> int:
    from conch.gateway import GatewayService

    given = args.url or ("127.0.0.1:8001",)
    urls = tuple(url if "://" in url else f"grpc://{url}" for url in given)
    service = GatewayService(replace(gateway_config(args), servers=urls))
    try:
        with service:
            others = "".join(f"  {name:8} {url}\n" for name, url in service.other_urls.items())
            announce(
                args,
                "The gateway is ready.\n"
                f"  gateway  {service.url}  (for {service.openness})\n"
                f"{others}"
                f"  servers  {', '.join(urls)}: {service.num_ready} of {len(urls)} ready\n"
                "Ctrl-C stops it.",
            )
            while True:
                time.sleep(3600)
    except KeyboardInterrupt:
        return 0


def add_key(args: argparse.Namespace) -> int:
    from conch.gateway import keys
    from conch.gateway.limits import Limits

    limits = Limits(
        requests_per_minute=args.requests_per_minute,
        audio_s_per_minute=args.audio_s_per_minute,
        streams=args.streams,
    )
    path = args.keys or keys.default_keys_file()
    print(keys.add_key(path, args.name, limits))
    return 0


def remove_key(args: argparse.Namespace) -> int:
    from conch.gateway import keys

    keys.remove_key(args.keys or keys.default_keys_file(), args.name)
    return 0


def list_keys(args: argparse.Namespace) -> int:
    from conch.gateway import keys

    path = args.keys or keys.default_keys_file()
    present = keys.read_keys(path)
    for key in present:
        created = time.strftime("%Y-%m-%d", time.localtime(key.created))
        limits = key.limits
        print(
            f"{key.name}  made {created}  requests a minute {limits.requests_per_minute or 'any'}  "
            f"audio s a minute {limits.audio_s_per_minute or 'any'}  "
            f"live sessions {limits.streams or 'any'}"
        )
    if not present:
        print(f"no keys in {path}")
    return 0
