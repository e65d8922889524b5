"""`conch bench live`: live streams, paced in real time."""

import argparse
import math
from typing import Any

from conch.cli.arguments import Subparsers, number, positive
from conch.cli.bench_arguments import (
    add_benchmark,
    add_counts,
    add_find_largest,
    add_metric,
    add_option,
    add_output,
    add_server,
    add_what,
    in_order,
    server_benchmark_of,
    write_report,
)

EPILOG = """
examples:
  conch bench live --manifest speech/manifest.tsv --split dev --streams 8,16,24,32
  conch bench live --manifest calls.tsv --streams 16 --find-largest
  conch bench live --manifest calls.tsv --option mode=streaming --streams 8 --json streaming.json

exit codes: 0 measured; 1 not measured, or every stream of a run failed; 2 wrong usage
"""


def add_live(benchmarks: Subparsers) -> None:
    """Add the command to those of `conch bench`."""
    parser = add_benchmark(
        benchmarks,
        "live",
        run_live,
        help="live streams, paced in real time",
        description="Send live streams in real time. Report the latency of the answers, "
        "the error rate of the final texts, and how many streams the server keeps up with.",
        epilog=EPILOG,
    )
    add_streams(parser)
    add_output(parser)


def add_streams(parser: argparse.ArgumentParser) -> "argparse._ArgumentGroup":
    """Add the streams, their audio and the server; return the group of the input."""
    what = add_what(parser)
    add_option(what)
    add_metric(what)
    how = parser.add_argument_group("how")
    add_counts(
        how, "--streams", "concurrent streams; several numbers make one run each (default: 8)"
    )
    how.add_argument(
        "--chunk-ms",
        type=positive,
        default=640,
        metavar="N",
        help="milliseconds of a chunk (default: 640)",
    )
    how.add_argument(
        "--seconds",
        type=positive,
        default=60,
        metavar="N",
        help="seconds of audio of a stream (default: 60)",
    )
    how.add_argument(
        "--pause",
        type=positive,
        default=1.5,
        metavar="N",
        help="seconds of silence between the utterances of a stream (default: 1.5)",
    )
    how.add_argument(
        "--warmup",
        type=number("seconds from 0", lambda seconds: 0 <= seconds < math.inf),
        default=5,
        metavar="N",
        help="uncounted seconds of the same streams before each run (default: 5)",
    )
    add_find_largest(how)
    add_server(how)
    return what


def live_benchmark_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of a `conch.bench.live.LiveBenchmark`, from `add_streams`."""
    return {
        **server_benchmark_of(args, live=True),
        "streams": in_order(args.streams or [[8]]),
        "chunk_ms": args.chunk_ms,
        "seconds": args.seconds,
        "pause_s": args.pause,
        "warmup_s": args.warmup,
        "find_largest": args.find_largest,
    }


def run_live(args: argparse.Namespace) -> int:
    """Measure, print the table, write the files and return the exit code."""
    settings = live_benchmark_of(args)
    from conch.bench import live
    from conch.bench.live_report import markdown

    benchmark = live.LiveBenchmark(**settings)
    report = live.run(benchmark)
    write_report(args, report, markdown(report))
    asked = report.runs[: len(benchmark.streams)]
    return 1 if any(run.errors == run.streams for run in asked) else 0
