"""`python -m lab speakers`: who speaks in conversations that are made of a manifest."""

import argparse
from pathlib import Path

from conch.cli.arguments import Subparsers, UsageError, add_command, number
from conch.cli.bench_arguments import add_output, count, write_report
from conch.wire.errors import OptionError
from lab.arguments import add_url, add_whole, seconds

EPILOG = """
examples:
  python -m lab speakers --manifest speech/manifest.tsv
  python -m lab speakers --manifest speech/manifest.tsv --speakers 2 --condition telephone \\
      --option decoder=ctc --number-given
  python -m lab speakers --manifest speech/manifest.tsv --condition clean --overlaps 0.25
  python -m lab speakers --manifest speech/manifest.tsv --known

exit codes: 0 measured, 1 not measured, 2 wrong usage
"""

share = number("a number from 0 to 1", lambda value: 0 <= value <= 1)
"""The type of a share."""


def add_speakers(commands: Subparsers) -> None:
    """Add the command to those of the laboratory."""
    parser = add_command(
        commands,
        "speakers",
        run_speakers,
        help="speaker labels: errors, number of speakers, cost",
        description="Make conversations of a split's utterances, send them with speakers=auto, and "
        "compare the labels with who speaks.",
        epilog=EPILOG,
    )
    what = parser.add_argument_group("what")
    what.add_argument("--manifest", type=Path, required=True, metavar="FILE")
    what.add_argument("--split", default="dev", metavar="NAME", help="(default: dev)")
    what.add_argument(
        "--speakers", type=count, action="append", metavar="N", help="(default: 2, 3, 4 and 8)"
    )
    what.add_argument(
        "--condition",
        choices=("clean", "noise", "telephone", "mobile"),
        action="append",
        help="(default: all)",
    )
    add_whole(what, "--conversations", 4, "conversations of each kind")
    what.add_argument(
        "--seconds", type=seconds, default=180.0, metavar="S", help="length (default: 180)"
    )
    what.add_argument("--seed", type=count, default=7, metavar="N", help="(default: 7)")
    what.add_argument(
        "--overlaps",
        type=share,
        metavar="SHARE",
        help="turns that begin before the one before ends, by 0.2 to 1 s; the others come 0.1 to "
        "1 s after it (default: gaps of -1.5 to 0.8 s)",
    )
    what.add_argument(
        "--number-given", action="store_true", help="send the number in place of auto"
    )
    what.add_argument(
        "--live",
        choices=("process", "server"),
        help="label as the audio comes: in this process, or also streamed in real time to a server",
    )
    what.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="of the requests"
    )
    what.add_argument(
        "--known",
        action="store_true",
        help="measure names of enrolled voices, of dev and train_extra, in place of labels",
    )
    how = parser.add_argument_group("how")
    how.add_argument(
        "--peer",
        action="store_true",
        help="label the same conversations by Resemblyzer and spectralcluster too",
    )
    add_url(how)
    add_output(parser)


def run_speakers(args: argparse.Namespace) -> int:
    """Measure and return the exit code."""
    from conch.cli.option_flags import parse_options
    from lab.speakers import benchmark, known, live
    from lab.speakers.conversations import CONDITIONS

    conditions = tuple(args.condition or CONDITIONS)
    if args.known:
        found = known.run(
            known.KnownBenchmark(
                manifest=args.manifest,
                conditions=conditions,
                conversations=args.conversations,
                seconds=args.seconds,
                seed=args.seed,
                url=args.url,
            )
        )
        write_report(args, found, known.markdown(found))
        return 0
    try:
        settings = benchmark.SpeakersBenchmark(
            manifest=args.manifest,
            split=args.split,
            speakers=tuple(args.speakers or (2, 3, 4, 8)),
            conditions=conditions,
            conversations=args.conversations,
            seconds=args.seconds,
            seed=args.seed,
            overlaps=args.overlaps,
            is_number_given=args.number_given,
            has_peer=args.peer,
            url=args.url,
            options=parse_options(args.option),
        )
        if args.live:
            streamed = live.run(settings, streams=args.live == "server")
            write_report(args, streamed, live.markdown(streamed))
            return 0
        report = benchmark.run(settings)
    except OptionError as error:
        raise UsageError(str(error)) from None
    write_report(args, report, benchmark.markdown(report))
    return 0
