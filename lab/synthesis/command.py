"""`python -m lab synthesis`: Conch's hibari beside the bare package."""

import argparse

from conch.cli.arguments import Subparsers, add_command, positive
from conch.cli.bench import add_input, add_output, write_report
from lab.arguments import settings_of

EPILOG = """
examples:
  python -m lab synthesis --manifest speech/manifest.tsv --split dev --limit 40

exit codes: 0 measured, 1 not measured, 2 wrong usage
"""


def add_synthesis(commands: Subparsers) -> None:
    parser = add_command(
        commands,
        "synthesis",
        run_synthesis,
        help="hibari by the bare package and by Conch's components",
        description="Speak the texts of a manifest in one process: by the package hibari-tts "
        "and by Conch's components, whole and in chunks. Report CPU time, and the difference of "
        "chunks to the whole.",
        epilog=EPILOG,
    )
    add_input(parser, "--limit N=40  texts, spread evenly over the manifest", limit=positive)
    add_output(parser)


def run_synthesis(args: argparse.Namespace) -> int:
    from lab.synthesis import benchmark

    report = benchmark.run(settings_of(benchmark.SynthesisBenchmark, args))
    write_report(args, report, benchmark.markdown(report))
    return 0
