"""`conch gateway`: OpenAI's audio API, live WebSockets and the web page, in front of servers."""

import argparse
import time
from dataclasses import replace
from pathlib import Path

from conch.cli.arguments import Subparsers, number, positive
from conch.cli.gateway_flags import add_gateway_flags, gateway_config
from conch.cli.logs import add_log_flags, announce, with_log
from conch.cli.signals import interrupt_on_signals

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


def add_parser(subparsers: Subparsers) -> None:
    """Add the command to those of `conch`."""
    parser = subparsers.add_parser(
        "gateway",
        help="serve OpenAI's audio API and the web page",
        description="Serve OpenAI's audio API, live WebSockets and a web page in front of servers "
        "of Conch.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--url",
        action="append",
        metavar="URL",
        help="gRPC address of a server; may be given several times (default: "
        "grpc://127.0.0.1:8001)",
    )
    add_gateway_flags(parser, "--listen")
    add_log_flags(parser, "the log")
    parser.set_defaults(run=run)
    _add_keys(parser.add_subparsers(metavar="keys", dest="what"))


def _add_keys(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "keys",
        help="make, list and remove API keys",
        description="Make, list and remove API keys. The file holds digests, not the keys.",
        epilog=KEYS_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    add = actions.add_parser("add", help="make a key and show it, once")
    add.add_argument("name", metavar="NAME", type=_name, help="name in logs and metrics")
    add.add_argument(
        "--requests-per-minute", type=positive, default=0, metavar="N", help="default: no limit"
    )
    add.add_argument(
        "--audio-s-per-minute",
        type=number("a number of seconds above 0", lambda value: value > 0),
        default=0.0,
        metavar="S",
        help="seconds of audio, of files and live sessions (default: no limit)",
    )
    add.add_argument(
        "--streams", type=positive, default=0, metavar="N", help="live sessions at once (no limit)"
    )
    remove = actions.add_parser("remove", help="remove a key; it is refused from then on")
    remove.add_argument("name", metavar="NAME", help="name of the key")
    for action, command in (
        (add, add_key),
        (remove, remove_key),
        (actions.add_parser("list", help="list the names and limits of all keys"), list_keys),
    ):
        action.add_argument(
            "--keys",
            type=Path,
            # A default would hide the value of `conch gateway --keys FILE keys …`.
            default=argparse.SUPPRESS,
            metavar="FILE",
            help="file (default: ~/.config/conch/gateway-keys.json)",
        )
        action.set_defaults(run=command)


def _name(text: str) -> str:
    if not text.isprintable() or not text.strip() or len(text) > 64:
        raise argparse.ArgumentTypeError(f"a name of up to 64 printable characters; got {text!r}")
    return text


def run(args: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM and return the exit code.

    Raises:
        ConfigError: keys, certificate or addresses are wrong.
        ServerError: the address is taken.
    """
    interrupt_on_signals()
    return with_log(args, lambda: _serve(args))


def _serve(args: argparse.Namespace) -> int:
    from conch.gateway import GatewayService

    urls = tuple(args.url or ("grpc://127.0.0.1:8001",))
    service = GatewayService(replace(gateway_config(args), servers=urls))
    try:
        with service:
            announce(
                args,
                "The gateway is ready.\n"
                f"  gateway  {service.url}  (for {service.openness})\n"
                f"  servers  {', '.join(urls)}: {service.num_ready} of {len(urls)} ready\n"
                "Ctrl-C stops it.",
            )
            while True:
                time.sleep(3600)
    except KeyboardInterrupt:
        return 0


def add_key(args: argparse.Namespace) -> int:
    """Make a key and print it.

    Raises:
        ConfigError: the name is taken, or the file cannot be written.
    """
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
    """Remove a key.

    Raises:
        ConfigError: the name is unknown, or the file cannot be written.
    """
    from conch.gateway import keys

    keys.remove_key(args.keys or keys.default_keys_file(), args.name)
    return 0


def list_keys(args: argparse.Namespace) -> int:
    """Print the names and limits of all keys.

    Raises:
        ConfigError: the file cannot be read.
    """
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
