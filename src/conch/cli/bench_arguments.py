"""Arguments that benchmarks share, and their types."""

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from conch.cli.arguments import Subparsers, number, output, positive
from conch.cli.server_flags import add_header_flags, add_whisper_flag, given_headers, given_whisper
from conch.cli.signals import interrupt_on_sigterm
from conch.wire.errors import OptionError

Number = TypeVar("Number", int, float)

MAX_RATE = 1000.0
"""Highest rate of requests that one client sends, per second."""


def add_benchmark(
    commands: Subparsers,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    help: str,
    description: str,
    epilog: str = "",
) -> argparse.ArgumentParser:
    """Add the command of a benchmark and return its parser.

    On SIGTERM too, the command ends its servers and removes its folders.
    """
    parser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=partial(_interruptible, run), usage_error=parser.error)
    return parser


def _interruptible(run: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    interrupt_on_sigterm()
    return run(args)


def add_speech(parser: argparse.ArgumentParser) -> "argparse._ArgumentGroup":
    """Add the manifest, and the split and source to send; return their group."""
    what = parser.add_argument_group("input")
    what.add_argument("--manifest", type=Path, required=True, metavar="FILE.tsv")
    what.add_argument("--split", help="only utterances of this split")
    what.add_argument("--source", help="only utterances of this source")
    return what


def add_what(parser: argparse.ArgumentParser) -> "argparse._ArgumentGroup":
    """Add the manifest, its parts and the number of utterances; return their group."""
    what = add_speech(parser)
    what.add_argument(
        "--limit",
        type=positive,
        metavar="N",
        help="at most N utterances, spread evenly over the manifest; the same ones each time",
    )
    return what


def choice_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of a `conch.bench.samples.Choice`, from `add_what` or `add_speech`."""
    names = ("manifest", "split", "source", "limit")
    return {name: getattr(args, name) for name in names if name in args}


def add_option(what: "argparse._ArgumentGroup") -> None:
    """Add the options of the requests."""
    what.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a request option; may be given several times",
    )


def options_of(args: argparse.Namespace, *, live: bool = False) -> dict[str, Any]:
    """Return the options of `add_option`; a mistake ends the program with code 2."""
    # Imported here, so that `conch --help` does not wait for the client.
    from conch.cli.option_pairs import parse_options

    try:
        return dict(parse_options(args.option, live=live))
    except OptionError as error:
        args.usage_error(str(error))
        raise


def add_metric(what: "argparse._ActionsContainer") -> None:
    """Add the unit of errors."""
    what.add_argument(
        "--metric",
        choices=("auto", "wer", "cer"),
        default="auto",
        help="count errors in words or in characters; auto: characters for zh, yue, ja, th, lo, "
        "my and km, else words (default: auto)",
    )


def add_send(what: "argparse._ArgumentGroup") -> None:
    """Add the form in which requests carry audio."""
    what.add_argument(
        "--send",
        choices=("waveform", "file"),
        default="waveform",
        help="samples decoded beforehand, or files that the server decodes (default: waveform)",
    )


def add_url(how: "argparse._ArgumentGroup") -> None:
    """Add the server's address."""
    how.add_argument(
        "--url",
        help="host:port, http:// or grpc:// of a running server, or of a gateway; without it, the "
        "benchmark starts one and measures its memory",
    )


def add_server(how: "argparse._ArgumentGroup") -> None:
    """Add the server to measure: its address and headers, or the Whisper of a new one."""
    add_url(how)
    add_whisper_flag(how)
    add_header_flags(how)


def server_benchmark_of(args: argparse.Namespace, *, live: bool = False) -> dict[str, Any]:
    """Return the fields of a `conch.bench.samples.ServerBenchmark`."""
    return {
        **choice_of(args),
        "url": args.url,
        "whisper": given_whisper(args),
        "headers": given_headers(args),
        "options": options_of(args, live=live),
        "metric": args.metric,
    }


def add_counts(how: "argparse._ArgumentGroup", flag: str, help: str) -> None:
    """Add a flag that takes whole numbers from 1, several times too; see `in_order`."""
    how.add_argument(flag, type=counts, action="append", metavar="N[,N…]", help=help)


def add_offered(how: "argparse._ArgumentGroup") -> None:
    """Add the loads, and the uncounted requests before each."""
    add_counts(
        how, "--concurrency", "concurrent clients; several numbers make one run each (default: 1)"
    )
    add_rate(how)
    add_warmup(how, 8, "uncounted requests before each run (default: 8)")


def add_rate(how: "argparse._ArgumentGroup") -> None:
    """Add the paced loads."""
    how.add_argument(
        "--rate",
        type=rates,
        action="append",
        metavar="R[,R…]",
        help="requests per second at random times (a Poisson process); latency counts from when "
        "each request was due; several numbers make one run each",
    )


def add_warmup(how: "argparse._ArgumentGroup", default: int, help: str) -> None:
    """Add the number of requests that are not counted."""
    how.add_argument("--warmup", type=count, default=default, metavar="N", help=help)


def add_find_largest(how: "argparse._ArgumentGroup") -> None:
    """Add the search for the largest number of live streams."""
    how.add_argument(
        "--find-largest",
        action="store_true",
        help="then find the largest number of streams that the server keeps up with: p99 of the "
        "chunk latency is below the chunk's length",
    )


def add_output(parser: argparse.ArgumentParser) -> "argparse._ArgumentGroup":
    """Add the files of the report; return their group."""
    out = parser.add_argument_group("output, besides the table on stdout")
    out.add_argument("--json", type=output, metavar="FILE", help="every figure")
    out.add_argument("--markdown", type=output, metavar="FILE", help="the table")
    return out


def write_report(args: argparse.Namespace, report: Any, table: str) -> None:
    """Print the table of a report and write the files of `add_output`."""
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
    """Return the closed loops of `add_offered` by clients: one client if no load is named."""
    return in_order(args.concurrency or ([] if args.rate else [[1]]))


def in_order(groups: Sequence[Sequence[Number]]) -> list[Number]:
    """Return the numbers of all groups without repetitions, in order."""
    return list(dict.fromkeys(item for group in groups for item in group))


def counts(text: str) -> list[int]:
    """Return numbers from 1, separated by commas."""
    return [positive(part) for part in text.split(",")]


def rates(text: str) -> list[float]:
    """Return rates separated by commas."""
    takes = f"a number above 0 and up to {MAX_RATE:g} requests a second"
    rate = number(takes, lambda value: 0 < value <= MAX_RATE)
    return [rate(part) for part in text.split(",")]


def count(text: str) -> int:
    """Return a whole number from 0.

    Raises:
        argparse.ArgumentTypeError: the text is not one.
    """
    if not text.strip().isdecimal():
        raise argparse.ArgumentTypeError(f"a whole number from 0; got {text!r}")
    return int(text)
