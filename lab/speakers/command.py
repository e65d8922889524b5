"""`python -m lab speakers`: who speaks in conversations that are made of a manifest."""

import argparse

from conch.bench.speakers import markdown
from conch.cli.arguments import number
from conch.cli.bench import OPTION, URL, options_of, settings_of, write_report
from lab.command import Command
from lab.speakers import benchmark, known, live
from lab.speakers.conversations import CONDITIONS


def run_command(args: argparse.Namespace) -> int:
    conditions = tuple(args.condition or CONDITIONS)
    if args.known:
        names = known.run(settings_of(known.KnownBenchmark, args, conditions=conditions))
        write_report(args, names, known.markdown(names))
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
    write_report(args, report, markdown(report))
    return 0


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--condition",
        choices=CONDITIONS,
        action="append",
        help="how it is recorded; may be given several times (default: all)",
    )


COMMAND = Command(
    run=run_command,
    description="Make conversations of a split's utterances, and measure them as `conch bench "
    "speakers` does: compare the labels of a server with who speaks.",
    epilog="""
examples:
  python -m lab speakers --manifest speech/manifest.tsv
  python -m lab speakers --manifest speech/manifest.tsv --speakers 2 --condition telephone \\
      --option decoder=ctc
  python -m lab speakers --manifest speech/manifest.tsv --condition clean --overlaps 0.25
  python -m lab speakers --manifest speech/manifest.tsv --known
""",
    flags="""
--manifest FILE!     utterances with their speakers
--split NAME=dev     of the manifest
--speakers N...      in a conversation (default: 2, 3, 4 and 8)
--conversations N=4  of each kind
--seconds S=180      of a conversation
--seed COUNT=7       of all that is drawn
--overlaps SHARE     turns that begin before the one before ends, by 0.2 to 1 s; the others come 0.1
                     to 1 s after it (default: gaps of -1.5 to 0.8 s)
--live {process,server}  label as the audio comes: in this process, or also streamed in real time to
                     a server
--known              measure names of enrolled voices, of dev and train_extra, in place of labels
"""
    + OPTION
    + URL,
    types={"overlaps": number("a number from 0 to 1", lambda value: 0 <= value <= 1)},
    add=_add,
)
