"""`python -m lab endpoints`: how soon turns end, and how often in mid-sentence."""

import argparse

from conch.cli.bench_arguments import OPTION, URL, options_of
from lab.arguments import settings_of
from lab.command import Command, reporting
from lab.endpoints.benchmark import SOURCES, EndpointsBenchmark, EndpointsReport, markdown, run


def _measured(args: argparse.Namespace) -> EndpointsReport:
    options, sources = options_of(args, live=True), tuple(args.source or SOURCES)
    return run(settings_of(EndpointsBenchmark, args, sources=sources, options=options))


COMMAND = Command(
    run=reporting(_measured, markdown),
    description="Make turns with hesitations of recordings with punctuated texts, and replay rules "
    "for their ends over what is heard in the pauses; or speak them to a server.",
    epilog="""
examples:
  python -m lab endpoints --manifest speech/manifest.tsv
  python -m lab endpoints --manifest speech/manifest.tsv --served --turns 20
""",
    flags="""
--manifest FILE!  recordings with punctuated texts
--source NAME...  (default: ljspeech and common_voice)
--turns N=300     most turns of each source
--seed COUNT=7    of all that is drawn
--served          speak the turns to a server
--streams N=2     with --served: turns at a time
"""
    + OPTION
    + URL,
)
