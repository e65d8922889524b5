"""`conch bench perf-analyzer-input`: input files for NVIDIA's perf_analyzer."""

import argparse
import sys
from pathlib import Path

from conch.cli.arguments import Subparsers, number, positive
from conch.cli.bench_arguments import add_send, counts, in_order
from conch.wire.errors import OptionError

EPILOG = """
A .tsv file is a manifest, as `conch bench offline` reads it; any other file is a recording. FOLDER
gets recordings.json, with one request for each, and streams.json, with one live stream for each.

Standard output gets the commands, as a script for the shell. perf_analyzer comes with
`pip install perf-analyzer`, and needs glibc 2.38: Debian 13, Ubuntu 24.04. See
docs/guide/perf-analyzer.md.

examples:
  conch bench perf-analyzer-input --out input talk.wav call.mp3 > measure.sh && sh measure.sh
  conch bench perf-analyzer-input --out input speech/manifest.tsv --limit 50 --streams 8,32 \\
      --option nbest=3 --stream-option mode=streaming

exit codes: 0 written; 1 not written; 2 wrong usage
"""


def add_perf_analyzer_input(benchmarks: Subparsers) -> None:
    """Add the command to those of `conch bench`."""
    parser = benchmarks.add_parser(
        "perf-analyzer-input",
        help="input files and commands for NVIDIA's perf_analyzer",
        description="Write recordings in the form that NVIDIA's perf_analyzer and Model Analyzer "
        "read, as offline requests and as live streams, and print the commands to run.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_argument_group("what is sent")
    what.add_argument(
        "inputs", nargs="+", type=Path, metavar="FILE", help="a recording, or a manifest (.tsv)"
    )
    what.add_argument(
        "--limit", type=positive, metavar="N", help="at most N recordings, spread evenly"
    )
    add_send(what)
    chunk_ms = number("milliseconds from 20 to 60000", lambda value: 20 <= value <= 60_000)
    what.add_argument(
        "--chunk-ms",
        type=lambda text: round(chunk_ms(text)),
        default=640,
        metavar="N",
        help="milliseconds of a chunk of a live stream (default: 640)",
    )
    what.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="gets the files")
    what.add_argument("--overwrite", action="store_true", help="replace files of an earlier run")
    how = parser.add_argument_group("what the commands ask for")
    how.add_argument(
        "--url",
        default="grpc://127.0.0.1:8001",
        help="Triton's gRPC port (default: %(default)s)",
    )
    how.add_argument(
        "--concurrency",
        type=counts,
        action="append",
        metavar="N[,N…]",
        help="recordings at once; several numbers make one command each (default: 1)",
    )
    how.add_argument(
        "--streams",
        type=counts,
        action="append",
        metavar="N[,N…]",
        help="live streams at once; several numbers make one pair of commands each (default: 8)",
    )
    for flag, of in (("--option", "recordings"), ("--stream-option", "live streams")):
        how.add_argument(
            flag,
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help=f"a request option of {of}; may be given several times",
        )
    parser.set_defaults(run=run_perf_analyzer_input)


def run_perf_analyzer_input(args: argparse.Namespace) -> int:
    """Write the files, print the commands and return the exit code."""
    from conch.bench import perf_analyzer
    from conch.bench.options import parse_options

    try:
        settings = perf_analyzer.PerfAnalyzerInput(
            inputs=args.inputs,
            folder=args.out,
            limit=args.limit,
            send=args.send,
            chunk_ms=args.chunk_ms,
            concurrency=in_order(args.concurrency or [[1]]),
            streams=in_order(args.streams or [[8]]),
            url=args.url,
            options=parse_options(args.option),
            stream_options=parse_options(args.stream_option, live=True),
            overwrite=args.overwrite,
        )
        perf_analyzer.check(settings)
    except OptionError as error:
        print(f"conch bench: {error}", file=sys.stderr)
        return 2
    written = perf_analyzer.write(settings)
    print(
        f"{args.out}: {written.recordings} recordings, {written.seconds:.1f} s, "
        f"{written.chunks} chunks",
        file=sys.stderr,
    )
    print(perf_analyzer.commands(settings, written), end="")
    return 0
