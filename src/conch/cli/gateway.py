"""`conch gateway`: OpenAI's audio API, live WebSockets and the web page, in front of servers."""

import argparse
import signal
import time
from dataclasses import replace
from pathlib import Path

from conch.cli.arguments import Subparsers, add_command, add_flags, number, positive
from conch.cli.gateway_flags import add_gateway_flags, gateway_config
from conch.cli.logs import add_log_flags, announce, with_log

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


FLAGS = "--url URL...  gRPC address of a server (default: grpc://127.0.0.1:8001)"
KEY_FLAGS = """
--requests-per-minute N  default: no limit
--audio-s-per-minute S   seconds of audio, of files and live sessions (default: no limit)
--streams N              live sessions at once (no limit)
"""


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
    add_flags(parser, FLAGS)
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
        action.add_argument(
            "--keys",
            type=Path,
            # A default would hide the value of `conch gateway --keys FILE keys …`.
            default=argparse.SUPPRESS,
            metavar="FILE",
            help="file (default: ~/.config/conch/gateway-keys.json)",
        )


def _name(text: str) -> str:
    if not text.isprintable() or not text.strip() or len(text) > 64:
        raise argparse.ArgumentTypeError(f"a name of up to 64 printable characters; got {text!r}")
    return text


def run(args: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM and return the exit code."""
    # A shell's background job would ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return with_log(args, lambda: _serve(args))


def _serve(args: argparse.Namespace) -> int:
    from conch.gateway import GatewayService

    asked = args.url or ("127.0.0.1:8001",)
    urls = tuple(url if "://" in url else f"grpc://{url}" for url in asked)
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
    found = keys.read_keys(path)
    for key in found:
        created = time.strftime("%Y-%m-%d", time.localtime(key.created))
        limits = key.limits
        print(
            f"{key.name}  made {created}  requests a minute {limits.requests_per_minute or 'any'}  "
            f"audio s a minute {limits.audio_s_per_minute or 'any'}  "
            f"live sessions {limits.streams or 'any'}"
        )
    if not found:
        print(f"no keys in {path}")
    return 0
