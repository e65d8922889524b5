"""`conch bench offline`: whole recordings, in a closed loop or paced."""

import argparse

from conch.cli.arguments import Subparsers
from conch.cli.bench_arguments import (
    add_benchmark,
    add_metric,
    add_offered,
    add_option,
    add_output,
    add_send,
    add_server,
    add_what,
    closed_loops,
    in_order,
    server_benchmark_of,
    write_report,
)
from conch.wire.errors import OptionError

EPILOG = """
The manifest is a text file with a header line and columns separated by tabs: path and text,
optionally split, source and language. Paths are relative to the manifest. An utterance without a
text does not count for the error rate. The language decides whether words or characters are counted
and how texts are normalised. It is that of the manifest, else of --option language=…, else of the
answer, else English.

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
    parser = add_benchmark(
        benchmarks,
        "offline",
        run_offline,
        help="whole recordings, in a closed loop or paced",
        description="Send whole recordings. In a closed loop, N clients each send the next "
        "recording when the last one is answered. A paced load sends N recordings per second, "
        "whether or not earlier ones are answered.",
        epilog=EPILOG,
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
    add_server(how)
    add_output(parser)


def presets(text: str) -> list[str]:
    """Return values of the option `accuracy` separated by commas.

    Raises:
        argparse.ArgumentTypeError: there is no such value.
    """
    from conch.cli.option_pairs import parse_options

    names = text.split(",")
    for name in names:
        try:
            parse_options([f"accuracy={name}"])
        except OptionError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return names


def run_offline(args: argparse.Namespace) -> int:
    """Measure, print the table, write the files and return the exit code."""
    settings = server_benchmark_of(args)
    # Imported here, so that `conch --help` does not wait for numpy and the clients.
    from conch.bench import offline
    from conch.bench.report import markdown

    report = offline.run(
        offline.OfflineBenchmark(
            **settings,
            concurrency=closed_loops(args),
            rates=in_order(args.rate or []),
            accuracy=args.accuracy,
            send=args.send,
            warmup=args.warmup,
        )
    )
    write_report(args, report, markdown(report))
    return 1 if any(run.figures.errors == run.figures.utterances for run in report.runs) else 0
