"""`conch bench live`: live streams, paced in real time."""

import argparse
import math
import sys

from conch.cli.arguments import Subparsers, number, output, positive
from conch.cli.bench_arguments import (
    add_find_largest,
    add_metric,
    add_option,
    add_output,
    add_url,
    add_what,
    counts,
    in_order,
    write_report,
)
from conch.cli.server_flags import add_header_flags, add_whisper_flag, given_headers, given_whisper
from conch.wire.errors import OptionError

EPILOG = """
examples:
  conch bench live --manifest speech/manifest.tsv --split dev --streams 8,16,24,32
  conch bench live --manifest calls.tsv --streams 16 --find-largest
  conch bench live --manifest calls.tsv --option mode=two_pass --streams 8 --json two.json
  conch bench live --manifest speech/manifest.tsv --chunk-ms 200 --streams 2,4,8 --plot live.png

exit codes: 0 measured; 1 not measured, or every stream of a run failed; 2 wrong usage
"""


def run_live(args: argparse.Namespace) -> int:
    """Measure, print the table, write the files and return the exit code."""
    from conch.bench import live, require
    from conch.bench.live_report import markdown
    from conch.bench.options import parse_options
    from conch.cli.bench_live_plot import plot

    try:
        options = parse_options(args.option, live=True)
    except OptionError as error:
        print(f"conch bench: {error}", file=sys.stderr)
        return 2
    benchmark = live.LiveBenchmark(
        manifest=args.manifest,
        split=args.split,
        source=args.source,
        limit=args.limit,
        streams=in_order(args.streams or [[8]]),
        chunk_ms=args.chunk_ms,
        seconds=args.seconds,
        pause_s=args.pause,
        warmup_s=args.warmup,
        find_largest=args.find_largest,
        telephone=args.telephone,
        metric=args.metric,
        url=args.url,
        whisper=given_whisper(args),
        headers=given_headers(args),
        options=options,
    )
    if args.plot:
        # Before the measurement, which takes minutes.
        require("matplotlib", extra="lab")
    report = live.run(benchmark)
    write_report(args, report, markdown(report))
    if args.plot:
        plot(report.runs, args.plot, report.rate)
    asked = report.runs[: len(benchmark.streams)]
    return 1 if any(run.errors == run.streams for run in asked) else 0


def add_live(benchmarks: Subparsers) -> None:
    """Add the command to those of `conch bench`."""
    parser = benchmarks.add_parser(
        "live",
        help="live streams, paced in real time",
        description="Send live streams in real time. Report how late the answers are, how right "
        "the text on the screen is, and how many streams the server keeps up with.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = add_what(parser)
    what.add_argument(
        "--telephone",
        action="store_true",
        help="as noisy telephone calls: 8 kHz, 300 to 3400 Hz, noise 15 dB below the speech; the "
        "same noise each time",
    )
    add_option(what)
    add_metric(what)
    how = parser.add_argument_group("how")
    how.add_argument(
        "--streams",
        type=counts,
        action="append",
        metavar="N[,N…]",
        help="concurrent streams; several numbers make one run each (default: 8)",
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
    add_url(how)
    add_whisper_flag(how)
    add_header_flags(how)
    add_output(parser).add_argument(
        "--plot",
        type=output,
        metavar="FILE.png",
        help="word error rates against the number of streams; needs matplotlib",
    )
    parser.set_defaults(run=run_live, usage_error=parser.error)
