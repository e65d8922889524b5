"""`conch bench offline`: whole recordings, in a closed loop or paced."""

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
from conch.cli.server_flags import add_header_flags, add_whisper_flag, given_headers, given_whisper
from conch.wire.errors import OptionError

EPILOG = """
The manifest is a text file with a header line and columns separated by tabs: path and text,
optionally split, source and language. Paths are relative to the manifest. An utterance without a
text does not count for the error rate. The language decides what is counted and how texts are
normalised: that of the manifest, else of --option language=…, else of the answer, else English.

examples:
  conch bench offline --manifest speech/manifest.tsv --split dev --concurrency 1,8 \\
      --json offline.json --markdown offline.md
  conch bench offline --manifest speech/manifest.tsv --accuracy fast,balanced,best
  conch bench offline --manifest speech/manifest.tsv --split dev --whisper base
  conch bench offline --manifest calls.tsv --url grpc://gpu-box:8001 --option rescore=true \\
      --option nbest=5 --limit 100
  conch bench offline --manifest speech/manifest.tsv --split dev_zh --option language=zh

exit codes: 0 measured; 1 not measured, or every request of a run failed; 2 wrong usage
"""


def add_offline(benchmarks: Subparsers) -> None:
    """Add the command to those of `conch bench`."""
    parser = benchmarks.add_parser(
        "offline",
        help="whole recordings, in a closed loop or paced",
        description="Send whole recordings. In a closed loop a number of clients send, each its "
        "next recording when the last one is answered. A paced load sends a number per second, "
        "whether or not earlier ones are answered.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = add_what(parser)
    add_send(what)
    add_option(what)
    add_metric(what)
    what.add_argument(
        "--accuracy",
        type=presets,
        default=[],
        metavar="PRESET[,PRESET…]",
        help="values of the option accuracy to compare, such as fast,balanced,best",
    )
    how = parser.add_argument_group("how")
    add_offered(how)
    add_url(how)
    add_whisper_flag(how)
    add_header_flags(how)
    add_output(parser)
    parser.set_defaults(run=run_offline, usage_error=parser.error)


def presets(text: str) -> list[str]:
    """Return values of the option `accuracy` separated by commas.

    Raises:
        argparse.ArgumentTypeError: there is no such value.
    """
    from conch.bench.options import parse_options

    names = text.split(",")
    for name in names:
        try:
            parse_options([f"accuracy={name}"])
        except OptionError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return names


def run_offline(args: argparse.Namespace) -> int:
    """Measure, print the table, write the files and return the exit code."""
    # Imported here, so that `conch --help` does not wait for numpy and the clients.
    from conch.bench import offline
    from conch.bench.options import parse_options
    from conch.bench.report import markdown

    try:
        options = parse_options(args.option)
    except OptionError as error:
        print(f"conch bench: {error}", file=sys.stderr)
        return 2
    report = offline.run(
        offline.OfflineBenchmark(
            manifest=args.manifest,
            split=args.split,
            source=args.source,
            limit=args.limit,
            concurrency=closed_loops(args),
            rates=in_order(args.rate or []),
            url=args.url,
            whisper=given_whisper(args),
            headers=given_headers(args),
            options=options,
            accuracy=args.accuracy,
            metric=args.metric,
            send=args.send,
            warmup=args.warmup,
        )
    )
    write_report(args, report, markdown(report))
    return 1 if any(run.figures.errors == run.figures.utterances for run in report.runs) else 0
