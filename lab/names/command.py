"""`python -m lab names`: how many listed names each decoder finds, with and without hotwords."""

import argparse

from conch.bench import require
from conch.cli.arguments import Subparsers, positive
from conch.cli.bench_arguments import add_output, add_url, add_what, write_report
from lab.paths.command import named_path

EPILOG = """
examples:
  python -m lab names --manifest speech/manifest.tsv --split dev
  python -m lab names --manifest speech/manifest.tsv --split dev --limit 60 --said 20 \\
      --path "graph:decoder=wfst" --path "weight 15:hotword_weight=15"

The names are rare words of the references that are measured; the distractors are rare words of the
other lines of the manifest. All requests carry the same list.

exit codes: 0 measured, 1 not measured, 2 wrong usage
"""


def add_names(commands: Subparsers) -> None:
    """Add the command to those of the laboratory."""
    parser = commands.add_parser(
        "names",
        help="how many listed names are found with hotwords, and what that costs",
        description="Send the same recordings with and without a list of hotwords, and count the "
        "listed names that the texts have, the errors of the other words, and invented names.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = add_what(parser)
    what.add_argument(
        "--said", type=positive, default=100, metavar="N", help="names (default: 100)"
    )
    what.add_argument(
        "--others", type=positive, default=1000, metavar="N", help="distractors (default: 1000)"
    )
    what.add_argument(
        "--path",
        type=named_path,
        action="append",
        default=[],
        metavar="NAME[:OPTION=VALUE]…",
        help="a path and its options, as often as needed (default: every decoder)",
    )
    how = parser.add_argument_group("how")
    how.add_argument(
        "--concurrency", type=positive, default=4, metavar="N", help="clients at once (default: 4)"
    )
    add_url(how)
    add_output(parser)
    parser.set_defaults(run=run_names)


def run_names(args: argparse.Namespace) -> int:
    """Measure, print the table, write the files and return the exit code."""
    from lab.names import benchmark

    require("jiwer", extra="bench")
    report = benchmark.run(
        benchmark.NamesBenchmark(
            manifest=args.manifest,
            split=args.split,
            source=args.source,
            limit=args.limit,
            said=args.said,
            others=args.others,
            concurrency=args.concurrency,
            url=args.url,
            paths=dict(args.path) or benchmark.PATHS,
        )
    )
    write_report(args, report, benchmark.markdown(report))
    return 0
