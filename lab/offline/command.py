"""`python -m lab offline`: whole recordings, joined or not, next to a baseline."""

import argparse

from conch.cli.arguments import Subparsers, UsageError, add_command, add_flags, positive
from conch.cli.bench import (
    LIMIT,
    METRIC,
    OPTION,
    SEND,
    add_input,
    add_offered,
    add_output,
    add_server,
    offered_of,
    server_benchmark_of,
    write_report,
)
from conch.wire.errors import BenchError
from lab.arguments import add_joining, joining

EPILOG = """
examples:
  python -m lab offline --manifest speech/manifest.tsv --split dev --concurrency 1,8 \\
      --baseline faster-whisper --json offline.json --markdown offline.md
  python -m lab offline --manifest speech/manifest.tsv --split dev --join 600 --pause 1,3 \\
      --between music --baseline faster-whisper

exit codes: 0 measured, 1 not measured or every request of a run failed, 2 wrong usage
"""
NAMES = "faster-whisper,faster-whisper-batched,sherpa-onnx-moonshine,sherpa-onnx-moonshine-onnx"
BASELINE = f"""
--baseline {{{NAMES}}}  measure this too, on the same recordings, in one process: with the weights
                        of the server's Whisper (batched decodes 8 segments of a recording at once),
                        or of its Moonshine, from the files of its packages or from ONNX made of
                        them
"""


def add_offline(commands: Subparsers) -> None:
    parser = add_command(
        commands,
        "offline",
        run_offline,
        help="whole recordings, joined or not, next to a baseline",
        description="Do what `conch bench offline` does, of long recordings too that are joined of "
        "utterances, and next to a baseline.",
        epilog=EPILOG,
    )
    add_input(parser, LIMIT + SEND + OPTION + METRIC, limit=positive)
    add_joining(parser.add_argument_group("long recordings, joined of the utterances"))
    how = parser.add_argument_group("how")
    add_offered(how)
    add_server(how)
    add_flags(how, BASELINE)
    add_output(parser)


def run_offline(args: argparse.Namespace) -> int:
    from lab.offline import benchmark
    from lab.offline.report import markdown

    settings = server_benchmark_of(args)
    try:
        how_joined = joining(args)
    except BenchError as error:
        raise UsageError(str(error)) from None
    report = benchmark.run(
        benchmark.ComparisonBenchmark(
            **settings,
            **offered_of(args),
            send=args.send,
            joining=how_joined,
            save=args.save,
            baseline=args.baseline,
        )
    )
    write_report(args, report, markdown(report))
    figures = [item.judged.run.figures for item in report.runs]
    return 1 if any(item.errors == item.utterances for item in figures) else 0
