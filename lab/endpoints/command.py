"""`python -m lab endpoints`: how soon turns end, and how often in mid-sentence."""

import argparse
from pathlib import Path

from conch.cli.arguments import Subparsers, add_command, add_flags, positive
from conch.cli.bench import OPTION, URL, add_output, count, options_of, write_report
from lab.arguments import settings_of

EPILOG = """
examples:
  python -m lab endpoints --manifest speech/manifest.tsv
  python -m lab endpoints --manifest speech/manifest.tsv --served --turns 20

exit codes: 0 measured, 1 not measured, 2 wrong usage
"""
FLAGS = """
--manifest FILE!  recordings with punctuated texts
--source NAME...  (default: ljspeech and common_voice)
--turns N=300     most turns of each source
--seed N=7        of all that is drawn
--served          speak the turns to a server
--streams N=2     with --served: turns at a time
"""


def add_endpoints(commands: Subparsers) -> None:
    parser = add_command(
        commands,
        "endpoints",
        run_endpoints,
        help="ends of turns: delay, and cuts in mid-sentence",
        description="Make turns with hesitations of recordings with punctuated texts, and replay "
        "rules for their ends over what is heard in the pauses; or speak them to a server.",
        epilog=EPILOG,
    )
    add_flags(
        parser,
        FLAGS + OPTION + URL,
        manifest=Path,
        turns=positive,
        seed=count,
        streams=positive,
    )
    add_output(parser)


def run_endpoints(args: argparse.Namespace) -> int:
    from lab.endpoints import benchmark

    options = options_of(args, live=True)
    sources = tuple(args.source or benchmark.SOURCES)
    report = benchmark.run(
        settings_of(benchmark.EndpointsBenchmark, args, sources=sources, options=options)
    )
    write_report(args, report, benchmark.markdown(report))
    return 0
