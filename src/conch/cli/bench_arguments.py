"""Arguments that benchmarks share, and their types."""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from conch.cli.arguments import number, output, positive
from conch.wire.errors import BenchError

if TYPE_CHECKING:
    from conch.bench.joined import Joining
    from conch.bench.settings import Setting

Number = TypeVar("Number", int, float)

MAX_RATE = 1000.0
"""Requests a second that one client sends."""


def add_speech(parser: argparse.ArgumentParser) -> "argparse._ArgumentGroup":
    """Add what is sent: a manifest, and which split and source of it."""
    what = parser.add_argument_group("what is sent")
    what.add_argument("--manifest", type=Path, required=True, metavar="FILE.tsv")
    what.add_argument("--split", help="only utterances of this split")
    what.add_argument("--source", help="only utterances of this source")
    return what


def add_what(parser: argparse.ArgumentParser) -> "argparse._ArgumentGroup":
    """Add what is sent: a manifest and what of it, and how much."""
    what = add_speech(parser)
    what.add_argument(
        "--limit",
        type=positive,
        metavar="N",
        help="at most N utterances, spread evenly over the manifest, the same ones each time",
    )
    return what


def add_joining(what: "argparse._ArgumentGroup") -> None:
    """Add how utterances become long recordings."""
    what.add_argument(
        "--join",
        type=seconds,
        metavar="SECONDS",
        help="join the utterances, in the order of the manifest, to recordings of at least so many "
        "seconds; a last one of half of that or more is kept. --limit counts recordings then",
    )
    what.add_argument(
        "--pause",
        type=pauses,
        metavar="LOW,HIGH",
        help="seconds between joined utterances, drawn from this range (default: 0.2,0.9)",
    )
    what.add_argument(
        "--between",
        choices=("silence", "noise", "music"),
        help="what the pauses hold: silence (noise at -70 dBFS), or pink noise or a tune 10 dB "
        "below the speech (default: silence)",
    )
    what.add_argument(
        "--telephone",
        action="store_true",
        default=None,
        help="make joined recordings telephone calls: 300 to 3400 Hz, noise throughout, 15 dB "
        "below the speech, 8 kHz, G.711 (mu-law)",
    )
    what.add_argument(
        "--seed",
        type=count,
        metavar="N",
        help="of the pauses and the noise of joined recordings (default: 1)",
    )
    what.add_argument(
        "--save",
        type=Path,
        metavar="FOLDER",
        help="keep the joined recordings in this empty folder, with a manifest.tsv, and an "
        "utterances.tsv that tells when which utterance is spoken",
    )


def joining(args: argparse.Namespace) -> "Joining | None":
    """Return how to join, None for not at all.

    Raises:
        BenchError: an option of joined recordings without --join.
    """
    from conch.bench.joined import Joining

    chosen = {
        "pause_s": args.pause,
        "between": args.between,
        "is_telephone": args.telephone,
        "seed": args.seed,
    }
    given = {name: value for name, value in chosen.items() if value is not None}
    if args.join is not None:
        return Joining(seconds=args.join, **given)
    if given or args.save:
        raise BenchError(
            "--pause, --between, --telephone, --seed and --save are for joined recordings: "
            "give --join SECONDS as well"
        )
    return None


def folder(text: str) -> Path:
    """Read the name of a folder, which is made where it is missing."""
    path = Path(text)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"not a folder that can be written: {error}") from None
    return path


def add_option(what: "argparse._ArgumentGroup") -> None:
    """Add the options of the requests."""
    what.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a request option, as often as needed",
    )


def add_url(how: "argparse._ArgumentGroup") -> None:
    """Add which server."""
    how.add_argument(
        "--url",
        help="host:port, http:// or grpc:// of a running server; without it one is started, "
        "and its memory measured",
    )


def add_find_largest(how: "argparse._ArgumentGroup") -> None:
    """Add whether to look for the most live streams."""
    how.add_argument(
        "--find-largest",
        action="store_true",
        help="after --streams go on to the largest number that keeps up: whose p99 of the chunk "
        "latency is below the chunk's length",
    )


def add_output(parser: argparse.ArgumentParser) -> "argparse._ArgumentGroup":
    """Add where the report goes."""
    out = parser.add_argument_group("output, besides the table on stdout")
    out.add_argument("--json", type=output, metavar="FILE", help="every figure")
    out.add_argument("--markdown", type=output, metavar="FILE", help="the table")
    return out


def add_rate(how: "argparse._ArgumentGroup") -> None:
    """Add the paced loads."""
    how.add_argument(
        "--rate",
        type=rates,
        action="append",
        metavar="R[,R…]",
        help="requests a second, paced as they would come by themselves (a Poisson process), with "
        "latencies from when each was due; several numbers give one run each",
    )


def write_report(args: argparse.Namespace, report: Mapping[str, Any], table: str) -> None:
    """Print the table of a report, and write what `add_output` asks for."""
    print(table, end="")
    if args.json:
        write_json(args.json, report)
    if args.markdown:
        args.markdown.write_text(table, encoding="utf-8")


def write_json(path: Path, report: Mapping[str, Any]) -> None:
    """Write every figure of a report."""
    text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")


def in_order(groups: Sequence[Sequence[Number]]) -> list[Number]:
    """Return the numbers of all groups, each once."""
    return list(dict.fromkeys(item for group in groups for item in group))


def counts(text: str) -> list[int]:
    """Read numbers parted by commas."""
    return [positive(part) for part in text.split(",")]


MAX_SECONDS = 36_000.0
"""Of a joined recording."""
MAX_PAUSE_S = 60.0
"""Between the utterances of a joined recording."""


def seconds(text: str) -> float:
    """Read the length of joined recordings."""
    takes = f"a number of seconds from 1 to {MAX_SECONDS:g}"
    return number(takes, lambda value: 1 <= value <= MAX_SECONDS)(text)


def pauses(text: str) -> tuple[float, float]:
    """Read the shortest and the longest pause."""
    takes = f"two numbers of seconds from 0 to {MAX_PAUSE_S:g} as LOW,HIGH, the lower one first"
    read = number(takes, lambda value: 0 <= value <= MAX_PAUSE_S)
    low, comma, high = text.partition(",")
    if not comma or read(low) > read(high):
        raise argparse.ArgumentTypeError(f"{takes}; got {text!r}")
    return read(low), read(high)


def rates(text: str) -> list[float]:
    """Read rates parted by commas."""
    takes = f"a number above 0 and up to {MAX_RATE:g} requests a second"
    rate = number(takes, lambda value: 0 < value <= MAX_RATE)
    return [rate(part) for part in text.split(",")]


def settings(text: str) -> "tuple[Setting, ...]":
    """Read settings of models."""
    from conch.bench.settings import read_settings

    try:
        return read_settings(text)
    except BenchError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def count(text: str) -> int:
    """Read a whole number from 0."""
    if not text.strip().isdecimal():
        raise argparse.ArgumentTypeError(f"a whole number from 0 on; got {text!r}")
    return int(text)
