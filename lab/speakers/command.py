"""`python -m lab speakers`: who speaks in conversations that are made of a manifest."""

import argparse
from pathlib import Path

from conch.cli.arguments import Subparsers, add_command, add_flags, number, positive
from conch.cli.bench import OPTION, URL, add_output, count, options_of, write_report
from lab.arguments import seconds, settings_of

EPILOG = """
examples:
  python -m lab speakers --manifest speech/manifest.tsv
  python -m lab speakers --manifest speech/manifest.tsv --speakers 2 --condition telephone \\
      --option decoder=ctc
  python -m lab speakers --manifest speech/manifest.tsv --condition clean --overlaps 0.25
  python -m lab speakers --manifest speech/manifest.tsv --known

exit codes: 0 measured, 1 not measured, 2 wrong usage
"""
FLAGS = """
--manifest FILE!     utterances with their speakers
--split NAME=dev     of the manifest
--speakers N...      in a conversation (default: 2, 3, 4 and 8)
--conversations N=4  of each kind
--seconds S=180      of a conversation
--seed N=7           of all that is drawn
--overlaps SHARE     turns that begin before the one before ends, by 0.2 to 1 s; the others come 0.1
                     to 1 s after it (default: gaps of -1.5 to 0.8 s)
--live {process,server}  label as the audio comes: in this process, or also streamed in real time to
                     a server
--known              measure names of enrolled voices, of dev and train_extra, in place of labels
--peer               label the same conversations by Resemblyzer and spectralcluster too
"""
share = number("a number from 0 to 1", lambda value: 0 <= value <= 1)


def add_speakers(commands: Subparsers) -> None:
    parser = add_command(
        commands,
        "speakers",
        run_speakers,
        help="speaker labels: errors, number of speakers, cost",
        description="Make conversations of a split's utterances, send them with speakers=auto, and "
        "compare the labels with who speaks.",
        epilog=EPILOG,
    )
    add_flags(
        parser,
        FLAGS + OPTION + URL,
        manifest=Path,
        speakers=count,
        conversations=positive,
        seconds=seconds,
        seed=count,
        overlaps=share,
    )
    parser.add_argument(
        "--condition",
        choices=("clean", "noise", "telephone"),
        action="append",
        help="how it is recorded; may be given several times (default: all)",
    )
    add_output(parser)


def run_speakers(args: argparse.Namespace) -> int:
    from lab.speakers import benchmark, known, live
    from lab.speakers.conversations import CONDITIONS

    conditions = tuple(args.condition or CONDITIONS)
    if args.known:
        found = known.run(settings_of(known.KnownBenchmark, args, conditions=conditions))
        write_report(args, found, known.markdown(found))
        return 0
    settings = settings_of(
        benchmark.SpeakersBenchmark,
        args,
        speakers=tuple(args.speakers or (2, 3, 4, 8)),
        conditions=conditions,
        options=options_of(args),
    )
    if args.live:
        streamed = live.run(settings, streams=args.live == "server")
        write_report(args, streamed, live.markdown(streamed))
        return 0
    report = benchmark.run(settings)
    write_report(args, report, benchmark.markdown(report))
    return 0
