"""`python -m lab offline`: whole recordings, joined or not, next to a baseline."""

import argparse
import sys

from conch.cli.arguments import Subparsers
from conch.cli.bench_arguments import (
    add_metric,
    add_offered,
    add_option,
    add_output,
    add_send,
    add_url,
    add_what,
    closed_loops,
    in_order,
    write_report,
)
from conch.wire.errors import BenchError, OptionError
from lab.arguments import add_baseline, add_joining, joining

EPILOG = """
examples:
  python -m lab offline --manifest speech/manifest.tsv --split dev --concurrency 1,8 \\
      --baseline faster-whisper --json offline.json --markdown offline.md
  python -m lab offline --manifest speech/manifest.tsv --split dev --join 600 --pause 1,3 \\
      --between music --baseline faster-whisper

exit codes: 0 measured, 1 not measured or every request of a run failed, 2 wrong usage
"""


def add_offline(commands: Subparsers) -> None:
    """Add the command to those of the laboratory."""
    parser = commands.add_parser(
        "offline",
        help="whole recordings, joined or not, next to a baseline",
        description="Do what `conch bench offline` does, of long recordings too that are joined of "
        "utterances, and next to a baseline.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = add_what(parser)
    add_send(what)
    add_option(what)
    add_metric(what)
    add_joining(parser.add_argument_group("long recordings, joined of the utterances"))
    how = parser.add_argument_group("how")
    add_offered(how)
    add_url(how)
    add_baseline(how)
    add_output(parser)
    parser.set_defaults(run=run_offline)


def run_offline(args: argparse.Namespace) -> int:
    """Measure, print the table, write the files and return the exit code."""
    from conch.bench.options import parse_options
    from lab.offline import benchmark
    from lab.offline.report import markdown

    try:
        options = parse_options(args.option)
        how_joined = joining(args)
    except (OptionError, BenchError) as error:
        print(f"lab offline: {error}", file=sys.stderr)
        return 2
    report = benchmark.run(
        benchmark.ComparisonBenchmark(
            manifest=args.manifest,
            split=args.split,
            source=args.source,
            limit=args.limit,
            concurrency=closed_loops(args),
            rates=in_order(args.rate or []),
            url=args.url,
            options=options,
            metric=args.metric,
            send=args.send,
            warmup=args.warmup,
            joining=how_joined,
            save=args.save,
            baseline=args.baseline,
        )
    )
    write_report(args, report, markdown(report))
    figures = [item.judged.run.figures for item in report.runs]
    return 1 if any(item.errors == item.utterances for item in figures) else 0
