"""`python -m lab fairness`: who waits how long when a server has more to do than it can."""

import argparse

from conch.cli.arguments import Subparsers, add_command, add_flags, positive
from conch.cli.bench import URL, add_output, write_report
from lab.arguments import settings_of

EPILOG = """
examples:
  python -m lab fairness
  python -m lab fairness --url 127.0.0.1:8000 --clients 100 --long 420

exit codes: 0 measured, 1 not measured, or an answer was wrong, 2 wrong usage
"""
FLAGS = """
--clients N=300  clients of the crowd
--seconds N=10   of each recording of the crowd
--short N=5      seconds of the short recording
--long N=3600    seconds of the long one
--times N=12     times that the short one is sent, alone and during the long one
"""


def add_fairness(commands: Subparsers) -> None:
    parser = add_command(
        commands,
        "fairness",
        run_fairness,
        help="who waits how long: a crowd at once, and a short recording during a long one",
        description="Send one recording from many clients at once, and a short one while a long "
        "one is recognised. All recordings are the sample of conch demo, repeated.",
        epilog=EPILOG,
    )
    names = ("clients", "seconds", "short", "long", "times")
    add_flags(parser.add_argument_group("input"), FLAGS + URL, **dict.fromkeys(names, positive))
    add_output(parser)


def run_fairness(args: argparse.Namespace) -> int:
    from lab.fairness import benchmark

    report = benchmark.run(settings_of(benchmark.FairnessBenchmark, args))
    write_report(args, report, benchmark.markdown(report))
    return 1 if report.crowd.wrong or report.crowd.failed else 0
