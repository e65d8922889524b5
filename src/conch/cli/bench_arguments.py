"""Arguments that benchmarks share, and their types."""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from conch.cli.arguments import UsageError, add_flags, number, output, positive, whole
from conch.cli.server_flags import HEADERS, NO_WEIGHTS, WEIGHTS, given_server
from conch.wire.errors import OptionError

Number = TypeVar("Number", int, float)

MAX_RATE = 1000.0
"""Highest rate of requests that one client sends, per second."""

INPUT = """
--manifest FILE.tsv!  recordings and their texts
--split SPLIT         only utterances of this split
--source SOURCE       only utterances of this source
"""
LIMIT = """
--limit N  at most N utterances, spread evenly over the manifest; the same ones each time
"""
OPTION = "--option NAME=VALUE...  a request option\n"
METRIC = """
--metric {auto,wer,cer}=auto  count errors in words or in characters; auto: characters for zh, yue,
                              ja, th, lo, my and km, else words
"""
SEND = """
--send {waveform,file}=waveform  samples decoded beforehand, or files that the server decodes
"""
URL = """
--url URL  host:port, http:// or grpc:// of a running server, or of a gateway; without it, the
           benchmark starts one and measures its memory
"""
FIND_LARGEST = """
--find-largest  then find the largest number of streams that the server keeps up with: p99 of the
                chunk latency is below the chunk's length
"""
OUTPUT = """
--json FILE      every figure
--markdown FILE  the table
"""


def add_input(
    parser: argparse.ArgumentParser, more: str = "", **values: Any
) -> "argparse._ArgumentGroup":
    """Add the manifest, its parts and more flags, as for `add_flags`; return their group."""
    what = parser.add_argument_group("input")
    add_flags(what, INPUT + more, manifest=Path, **values)
    return what


def choice_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of a `conch.bench.samples.Choice`, from `add_input`."""
    names = ("manifest", "split", "source", "limit")
    return {name: getattr(args, name) for name in names if name in args}


def options_of(args: argparse.Namespace, *, live: bool = False) -> dict[str, Any]:
    # Imported here, so that `conch --help` does not wait for the client.
    from conch.cli.option_flags import parse_options

    try:
        return dict(parse_options(args.option, live=live))
    except OptionError as error:
        raise UsageError(str(error)) from None


def add_server(how: "argparse._ArgumentGroup") -> None:
    """Add the server to measure: its address and headers, or the weights of a new one."""
    add_flags(how, URL + WEIGHTS + HEADERS, **NO_WEIGHTS)


def server_benchmark_of(args: argparse.Namespace, *, live: bool = False) -> dict[str, Any]:
    """Return the fields of a `conch.bench.samples.ServerBenchmark`."""
    headers, weights = given_server(args)
    return {
        **choice_of(args),
        "url": args.url,
        "weights": weights,
        "headers": headers,
        "options": options_of(args, live=live),
        "metric": args.metric,
    }


def add_counts(how: "argparse._ArgumentGroup", flag: str, help: str) -> None:
    """Add a flag that takes whole numbers from 1, several times too."""
    how.add_argument(flag, type=counts, action="extend", metavar="N[,N…]", help=help)


def add_rate(how: "argparse._ArgumentGroup") -> None:
    """Add the paced loads."""
    how.add_argument(
        "--rate",
        type=rates,
        action="extend",
        metavar="R[,R…]",
        help="requests per second at random times (a Poisson process); latency counts from when "
        "each request was due; several numbers make one run each",
    )


def add_offered(how: "argparse._ArgumentGroup") -> None:
    """Add the loads, and the uncounted requests before each."""
    add_counts(
        how, "--concurrency", "concurrent clients; several numbers make one run each (default: 1)"
    )
    add_rate(how)
    add_flags(how, "--warmup N=8  uncounted requests before each run", warmup=count)


def add_output(parser: argparse.ArgumentParser) -> "argparse._ArgumentGroup":
    """Add the files of the report; return their group."""
    out = parser.add_argument_group("output, besides the table on stdout")
    add_flags(out, OUTPUT, json=output, markdown=output)
    return out


def write_report(args: argparse.Namespace, report: Any, table: str) -> None:
    """Print the table of a report and write the files of `add_output`."""
    print(table, end="")
    if args.json:
        write_json(args.json, report)
    if args.markdown:
        args.markdown.write_text(table, encoding="utf-8")


def write_json(path: Path, report: Any) -> None:
    """Write every figure of a report, a record of `conch.bench.header`."""
    from conch.bench.header import to_json

    text = json.dumps(to_json(report), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    path.write_text(text, encoding="utf-8")


def offered_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of loads, from `add_offered`: one client if no load is named."""
    clients = args.concurrency or ([] if args.rate else [1])
    rates = distinct(args.rate or [])
    return {"concurrency": distinct(clients), "rates": rates, "warmup": args.warmup}


def distinct(numbers: Iterable[Number]) -> list[Number]:
    """Return numbers without repetitions, in order."""
    return list(dict.fromkeys(numbers))


def counts(text: str) -> list[int]:
    """Return numbers from 1, separated by commas."""
    return [positive(part) for part in text.split(",")]


def rates(text: str) -> list[float]:
    """Return rates separated by commas."""
    takes = f"a number above 0 and up to {MAX_RATE:g} requests a second"
    rate = number(takes, lambda value: 0 < value <= MAX_RATE)
    return [rate(part) for part in text.split(",")]


count = whole(0)
