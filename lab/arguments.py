"""Arguments that several commands of the laboratory share, and their types."""

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conch.cli.arguments import UsageError, add_flags, number, output, positive
from conch.cli.bench import LIMIT, add_input, count, counts
from conch.cli.option_flags import parse_options
from conch.wire.errors import OptionError
from lab.recordings.joined import Joining

MAX_SECONDS = 36_000.0
MAX_PAUSE_S = 60.0
JOINING = """
--join S          join the utterances, in the order of the manifest, to recordings of at least this
                  many seconds; the last is kept from half of that on. --limit then counts
                  recordings
--pause LOW,HIGH  seconds between joined utterances, drawn from this range (default: 0.2,0.9)
--between {silence,noise,music}  content of the pauses: silence (noise at -70 dBFS), or pink noise
                  or a tune 10 dB below the speech (default: silence)
--telephone       make joined recordings telephone calls: 300 to 3400 Hz, noise throughout, 15 dB
                  below the speech, 8 kHz, G.711 (mu-law)
--seed COUNT      seed of the pauses and the noise of joined recordings (default: 1)
"""


def types_of(flags: str) -> dict[str, Any]:
    """Return the types of flags, as `add_flags` takes them, by the forms of their values."""
    forms = _FORM.findall(flags)
    return {name.replace("-", "_"): TYPES[form] for name, form in forms if form in TYPES}


def script_parser(
    doc: str | None, flags: str = "", *, takes_manifest: bool = False, **values: Any
) -> argparse.ArgumentParser:
    """Return the parser of a script, which its first line describes; see `Command` for flags.

    `takes_manifest` adds those of a `Choice`.
    """
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    if takes_manifest:
        add_input(parser, LIMIT, **types_of(LIMIT))
    add_flags(parser, flags, **types_of(flags) | values)
    return parser


def joining(args: argparse.Namespace) -> Joining | None:
    """Return how to join utterances, None to send them as they are."""
    chosen = {
        "pause_s": args.pause,
        "between": args.between,
        "is_telephone": args.telephone or None,
        "seed": args.seed,
    }
    given = {name: value for name, value in chosen.items() if value is not None}
    if args.join is not None:
        return Joining(seconds=args.join, **given)
    if given:
        raise UsageError(
            "--pause, --between, --telephone and --seed are for joined recordings: give --join too"
        )
    return None


def named_options(text: str) -> tuple[str, Mapping[str, Any]]:
    """Return what `NAME[:OPTION=VALUE]…` says."""
    name, *pairs = text.split(":")
    try:
        return name, parse_options(pairs)
    except OptionError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def seconds(text: str) -> float:
    takes = f"a number of seconds from 1 to {MAX_SECONDS:g}"
    return number(takes, lambda value: 1 <= value <= MAX_SECONDS)(text)


def pauses(text: str) -> tuple[float, float]:
    takes = f"two numbers of seconds from 0 to {MAX_PAUSE_S:g} as LOW,HIGH, the lower one first"
    read = number(takes, lambda value: 0 <= value <= MAX_PAUSE_S)
    low, comma, high = text.partition(",")
    if not comma or read(low) > read(high):
        raise argparse.ArgumentTypeError(f"{takes}; got {text!r}")
    return read(low), read(high)


TYPES: Mapping[str, Any] = {
    "N": positive,
    "COUNT": count,
    "X": float,
    "S": seconds,
    "N[,N…]": counts,
    "LOW,HIGH": pauses,
    "FILE": Path,
    "FOLDER": Path,
    "FILE.png": output,
}
"""Types of values, by the forms that flags show; all others are texts."""
_FORM = re.compile(r"^--(\S+) ([^\s=!.]+(?:\.png)?)", re.MULTILINE)
