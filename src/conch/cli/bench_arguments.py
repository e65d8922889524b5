"""Arguments that benchmarks share, and their types."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from conch.cli.arguments import number, output, positive

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


def add_send(what: "argparse._ArgumentGroup") -> None:
    """Add in which form recordings are sent."""
    what.add_argument(
        "--send",
        choices=("waveform", "file"),
        default="waveform",
        help="samples decoded beforehand, or the files for the server to decode "
        "(default: waveform)",
    )


def add_offered(how: "argparse._ArgumentGroup") -> None:
    """Add the loads, and what comes before each."""
    how.add_argument(
        "--concurrency",
        type=counts,
        action="append",
        metavar="N[,N…]",
        help="clients at once; several numbers give one run each (default: 1)",
    )
    add_rate(how)
    how.add_argument(
        "--warmup",
        type=count,
        default=8,
        metavar="N",
        help="requests before each run that are not counted (default: 8)",
    )


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


def write_report(args: argparse.Namespace, report: Any, table: str) -> None:
    """Print the table of a report, and write what `add_output` asks for."""
    print(table, end="")
    if args.json:
        write_json(args.json, report)
    if args.markdown:
        args.markdown.write_text(table, encoding="utf-8")


def write_json(path: Path, report: Any) -> None:
    """Write every figure of a report, a record of `conch.bench.records`."""
    from conch.bench.records import to_json

    text = json.dumps(to_json(report), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    path.write_text(text, encoding="utf-8")


def closed_loops(args: argparse.Namespace) -> list[int]:
    """Return the clients of the closed loops of `add_offered`: one where no load is named."""
    return in_order(args.concurrency or ([] if args.rate else [[1]]))


def in_order(groups: Sequence[Sequence[Number]]) -> list[Number]:
    """Return the numbers of all groups, each once."""
    return list(dict.fromkeys(item for group in groups for item in group))


def counts(text: str) -> list[int]:
    """Read numbers parted by commas."""
    return [positive(part) for part in text.split(",")]


def rates(text: str) -> list[float]:
    """Read rates parted by commas."""
    takes = f"a number above 0 and up to {MAX_RATE:g} requests a second"
    rate = number(takes, lambda value: 0 < value <= MAX_RATE)
    return [rate(part) for part in text.split(",")]


def count(text: str) -> int:
    """Read a whole number from 0."""
    if not text.strip().isdecimal():
        raise argparse.ArgumentTypeError(f"a whole number from 0 on; got {text!r}")
    return int(text)
