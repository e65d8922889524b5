"""`python -m lab endpoints`: how soon turns end, and how often in mid-sentence."""

import argparse
from pathlib import Path

from conch.cli.arguments import Subparsers, UsageError, add_command
from conch.cli.bench_arguments import add_output, count, write_report
from conch.wire.errors import OptionError
from lab.arguments import add_url, add_whole

EPILOG = """
examples:
  python -m lab endpoints --manifest speech/manifest.tsv --signals signals.jsonl
  python -m lab endpoints --manifest speech/manifest.tsv --served --turns 20

exit codes: 0 measured, 1 not measured, 2 wrong usage
"""


def add_endpoints(commands: Subparsers) -> None:
    """Add the command to those of the laboratory."""
    parser = add_command(
        commands,
        "endpoints",
        run_endpoints,
        help="ends of turns: delay, and cuts in mid-sentence",
        description="Make turns with hesitations of recordings with punctuated texts, and replay "
        "rules for their ends over what is heard in the pauses; or speak them to a server.",
        epilog=EPILOG,
    )
    what = parser.add_argument_group("what")
    what.add_argument("--manifest", type=Path, required=True, metavar="FILE")
    what.add_argument(
        "--source",
        action="append",
        metavar="NAME",
        help="(default: ljspeech and common_voice)",
    )
    add_whole(what, "--turns", 300, "most turns of each source")
    what.add_argument("--seed", type=count, default=7, metavar="N", help="(default: 7)")
    how = parser.add_argument_group("how")
    how.add_argument(
        "--signals",
        type=Path,
        metavar="FILE",
        help="file that keeps what is heard in the pauses; read if it is there",
    )
    how.add_argument("--served", action="store_true", help="speak the turns to a server")
    add_whole(how, "--streams", 2, "with --served: turns at a time")
    how.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="of the streams"
    )
    add_url(how)
    add_output(parser)


def run_endpoints(args: argparse.Namespace) -> int:
    """Measure and return the exit code."""
    from conch.cli.option_flags import parse_options
    from lab.endpoints import benchmark

    try:
        report = benchmark.run(
            benchmark.EndpointsBenchmark(
                manifest=args.manifest,
                sources=tuple(args.source or benchmark.SOURCES),
                turns=args.turns,
                seed=args.seed,
                signals=args.signals,
                is_served=args.served,
                url=args.url,
                streams=args.streams,
                options=parse_options(args.option, live=True),
            )
        )
    except OptionError as error:
        raise UsageError(str(error)) from None
    write_report(args, report, benchmark.markdown(report))
    return 0
