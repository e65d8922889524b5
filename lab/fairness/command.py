"""`python -m lab fairness`: who waits how long when a server has more to do than it can."""

import argparse
import dataclasses

from conch.cli.arguments import Subparsers, add_command
from conch.cli.bench_arguments import add_output, write_report
from lab.arguments import add_url, add_whole

EPILOG = """
examples:
  python -m lab fairness
  python -m lab fairness --url 127.0.0.1:8000 --clients 100 --long 420

exit codes: 0 measured, 1 not measured, or an answer was wrong, 2 wrong usage
"""


def add_fairness(commands: Subparsers) -> None:
    """Add the command to those of the laboratory."""
    parser = add_command(
        commands,
        "fairness",
        run_fairness,
        help="who waits how long: a crowd at once, and a short recording during a long one",
        description="Send one recording from many clients at once, and a short one while a long "
        "one is recognised. All recordings are the sample of conch demo, repeated.",
        epilog=EPILOG,
    )
    what = parser.add_argument_group("input")
    add_whole(what, "--clients", 300, "clients of the crowd")
    add_whole(what, "--seconds", 10, "of each recording of the crowd")
    add_whole(what, "--short", 5, "seconds of the short recording")
    add_whole(what, "--long", 3600, "seconds of the long one")
    times = "times that the short one is sent, alone and during the long one"
    add_whole(what, "--times", 12, times)
    add_url(parser.add_argument_group("how"))
    add_output(parser)


def run_fairness(args: argparse.Namespace) -> int:
    """Measure, print the table, write the files and return the exit code."""
    from lab.fairness import benchmark

    names = [item.name for item in dataclasses.fields(benchmark.FairnessBenchmark)]
    settings = benchmark.FairnessBenchmark(**{name: getattr(args, name) for name in names})
    report = benchmark.run(settings)
    write_report(args, report, benchmark.markdown(report))
    return 1 if report.crowd.wrong or report.crowd.failed else 0
