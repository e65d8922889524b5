"""`python -m lab synthesis`: Conch's hibari beside the bare package."""

import argparse

from conch.cli.arguments import Subparsers, add_command
from conch.cli.bench_arguments import add_input, add_output, choice_of, write_report
from lab.arguments import add_whole

EPILOG = """
examples:
  python -m lab synthesis --manifest speech/manifest.tsv --split dev --limit 40

exit codes: 0 measured, 1 not measured, 2 wrong usage
"""


def add_synthesis(commands: Subparsers) -> None:
    """Add the command to those of the laboratory."""
    parser = add_command(
        commands,
        "synthesis",
        run_synthesis,
        help="hibari by the bare package and by Conch's components",
        description="Speak the texts of a manifest in one process: by the package hibari-tts as it "
        "is, with the weights that Conch makes of it, and by Conch's components, whole and in "
        "chunks. Report CPU time, the difference of chunks to the whole, and how rough seams are.",
        epilog=EPILOG,
    )
    what = add_input(parser)
    add_whole(what, "--limit", 40, "texts, spread evenly over the manifest")
    add_output(parser)


def run_synthesis(args: argparse.Namespace) -> int:
    """Measure, print the table, write the files and return the exit code."""
    from lab.synthesis import benchmark

    report = benchmark.run(benchmark.SynthesisBenchmark(**choice_of(args)))
    write_report(args, report, benchmark.markdown(report))
    return 0
