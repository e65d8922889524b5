"""`python -m lab paths`: accuracy against speed of several paths."""

import argparse
from collections.abc import Mapping
from typing import Any

from conch.cli.arguments import Subparsers, add_command, add_flags, output, positive
from conch.cli.bench import LIMIT, URL, add_input, add_output, write_report
from conch.scoring import require
from conch.wire.errors import OptionError
from lab.arguments import settings_of

EPILOG = """
examples:
  python -m lab paths --manifest speech/manifest.tsv --split dev --plot paths.png
  python -m lab paths --manifest calls.tsv --path fast:decoder=ctc:beam_size=1 --path best

exit codes: 0 measured, 1 not measured or every request of a path failed, 2 wrong usage
"""


def add_paths(commands: Subparsers) -> None:
    parser = add_command(
        commands,
        "paths",
        run_paths,
        help="accuracy against speed of several paths",
        description="Send the same recordings down several paths of one server, one after the "
        "other, in a closed loop.",
        epilog=EPILOG,
    )
    what = add_input(parser, LIMIT, limit=positive)
    what.add_argument(
        "--path",
        dest="paths",
        type=_path,
        action="append",
        metavar="NAME[:OPTION=VALUE]…",
        help="a path and its options, as often as needed (default: every decoder, with and without "
        "each kind of rescoring)",
    )
    how = parser.add_argument_group("how")
    add_flags(how, "--concurrency N=4  clients at once" + URL, concurrency=positive)
    add_flags(add_output(parser), "--plot FILE.png  WER against RTFx", plot=output)


def run_paths(args: argparse.Namespace) -> int:
    from lab.paths import benchmark

    if args.plot:
        require("matplotlib", extra="lab")
    more = {"paths": dict(args.paths)} if args.paths else {}
    report = benchmark.run(settings_of(benchmark.PathsBenchmark, args, **more))
    write_report(args, report, benchmark.markdown(report))
    if args.plot:
        benchmark.plot(report.paths, args.plot)
    figures = [path.figures for path in report.paths]
    return 1 if any(item.errors == item.utterances for item in figures) else 0


def _path(text: str) -> tuple[str, Mapping[str, Any]]:
    from conch.cli.option_flags import parse_options

    name, *pairs = text.split(":")
    try:
        return name, parse_options(pairs)
    except OptionError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
