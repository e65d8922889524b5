"""Arguments that several commands of the laboratory share, and their types."""

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from conch.cli.arguments import add_flags, number, positive
from conch.cli.bench_arguments import LIMIT, URL, add_input, count
from conch.wire.errors import BenchError
from lab.recordings.joined import Joining
from lab.settings import Setting, read_settings

MAX_SECONDS = 36_000.0
"""Longest joined recording, in seconds."""
MAX_PAUSE_S = 60.0
"""Longest pause between joined utterances, in seconds."""


Settings = TypeVar("Settings")


def settings_of(kind: type[Settings], args: argparse.Namespace, **more: Any) -> Settings:
    """Return the settings of a benchmark, from the arguments of the same names that are given."""
    names = {item.name for item in fields(kind)}  # type: ignore[arg-type]
    given = {name: value for name, value in vars(args).items() if name in names}
    return kind(**{name: value for name, value in given.items() if value is not None} | more)


def script_parser(doc: str | None, flags: str = "", **values: Any) -> argparse.ArgumentParser:
    """Return the parser of a script, which its first line describes; flags as of `add_flags`."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    add_flags(parser, flags, **values)
    return parser


def add_whole(group: "argparse._ActionsContainer", flag: str, default: int, help: str) -> None:
    """Add a flag that takes a whole number from 1."""
    help = f"{help} (default: {default})"
    group.add_argument(flag, type=positive, default=default, metavar="N", help=help)


def add_what(parser: argparse.ArgumentParser) -> "argparse._ArgumentGroup":
    """Add the manifest, its parts and the number of utterances; return their group."""
    return add_input(parser, LIMIT, limit=positive)


def add_url(how: "argparse._ArgumentGroup") -> None:
    """Add the address of the server to measure."""
    add_flags(how, URL)


def add_joining(what: "argparse._ArgumentGroup") -> None:
    """Add the options of joined recordings."""
    what.add_argument(
        "--join",
        type=seconds,
        metavar="SECONDS",
        help="join the utterances, in the order of the manifest, to recordings of at least "
        "this many seconds; the last is kept from half of that on. --limit then counts recordings",
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
        help="content of the pauses: silence (noise at -70 dBFS), or pink noise or a tune 10 dB "
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
        help="seed of the pauses and the noise of joined recordings (default: 1)",
    )
    what.add_argument(
        "--save",
        type=Path,
        metavar="FOLDER",
        help="keep the joined recordings in this empty folder, with a manifest.tsv, and an "
        "utterances.tsv with the times of the utterances",
    )


def joining(args: argparse.Namespace) -> Joining | None:
    """Return how to join utterances, None to send them as they are.

    Raises:
        BenchError: an option of joined recordings lacks --join.
    """
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
    """Return the name of a folder, which is created if it is missing."""
    path = Path(text)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"not a folder that can be written: {error}") from None
    return path


def seconds(text: str) -> float:
    takes = f"a number of seconds from 1 to {MAX_SECONDS:g}"
    return number(takes, lambda value: 1 <= value <= MAX_SECONDS)(text)


def pauses(text: str) -> tuple[float, float]:
    """Return the shortest and the longest pause, in seconds."""
    takes = f"two numbers of seconds from 0 to {MAX_PAUSE_S:g} as LOW,HIGH, the lower one first"
    read = number(takes, lambda value: 0 <= value <= MAX_PAUSE_S)
    low, comma, high = text.partition(",")
    if not comma or read(low) > read(high):
        raise argparse.ArgumentTypeError(f"{takes}; got {text!r}")
    return read(low), read(high)


def settings(text: str) -> tuple[Setting, ...]:
    try:
        return read_settings(text)
    except BenchError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_baseline(how: "argparse._ArgumentGroup") -> None:
    """Add the choice of a baseline."""
    how.add_argument(
        "--baseline",
        choices=(
            *("faster-whisper", "faster-whisper-batched"),
            *("sherpa-onnx-moonshine", "sherpa-onnx-moonshine-onnx"),
        ),
        help="measure this too, on the same recordings, in one process: with the weights of the "
        "server's Whisper (batched decodes 8 segments of a recording at once), or of its "
        "Moonshine, from the files of its packages or from ONNX made of them",
    )
