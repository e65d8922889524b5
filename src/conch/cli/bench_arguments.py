"""Arguments that benchmarks share, and their types."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from conch.cli.arguments import output, positive


def add_what(parser: argparse.ArgumentParser) -> "argparse._ArgumentGroup":
    """Add what is sent: a manifest and what of it."""
    what = parser.add_argument_group("what is sent")
    what.add_argument("--manifest", type=Path, required=True, metavar="FILE.tsv")
    what.add_argument("--split", help="only utterances of this split")
    what.add_argument("--source", help="only utterances of this source")
    what.add_argument(
        "--limit",
        type=positive,
        metavar="N",
        help="at most N utterances, spread evenly over the manifest, the same ones each time",
    )
    return what


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


def add_output(parser: argparse.ArgumentParser) -> "argparse._ArgumentGroup":
    """Add where the report goes."""
    out = parser.add_argument_group("output, besides the table on stdout")
    out.add_argument("--json", type=output, metavar="FILE", help="every figure")
    out.add_argument("--markdown", type=output, metavar="FILE", help="the table")
    return out


def in_order(groups: Sequence[Sequence[int]]) -> list[int]:
    """Return the numbers of all groups, each once."""
    return list(dict.fromkeys(count for group in groups for count in group))


def counts(text: str) -> list[int]:
    """Read numbers parted by commas."""
    return [positive(part) for part in text.split(",")]


def count(text: str) -> int:
    """Read a whole number from 0."""
    if not text.strip().isdecimal():
        raise argparse.ArgumentTypeError(f"a whole number from 0 on; got {text!r}")
    return int(text)
