"""`python -m lab recordings`: long recordings of several kinds."""

import argparse

from conch.cli.arguments import Subparsers, UsageError, add_command, add_flags, number
from conch.cli.bench_arguments import (
    OPTION,
    add_input,
    add_output,
    choice_of,
    count,
    options_of,
    write_report,
)
from lab.arguments import add_baseline, add_url

ALL = "all"
WARMUP = "--warmup N=4  utterances before each case that are not counted"

RECORDINGS_EPILOG = """
cases, of five minutes with pauses of 0.2 to 0.9 s unless noted:
  1min, 5min, 20min, 60min  lengths
  short-pauses, long-pauses 0.1 to 0.4 s, 1 to 3 s
  telephone                 8 kHz, 300 to 3400 Hz, noise throughout, 15 dB below the speech, G.711
  noise, music              pauses of 1 to 3 s with pink noise or a tune, 10 dB below the speech
  sources                   one case for each source of the manifest

Every case takes all of the utterances: an hour of speech takes two cores about three minutes for
conch, and six for the baseline. --minutes takes less.

examples:
  python -m lab recordings --manifest speech/manifest.tsv --split dev --baseline faster-whisper \\
      --json recordings.json --markdown recordings.md
  python -m lab recordings --manifest calls.tsv --cases 5min,telephone --minutes 20

exit codes: 0 measured, 1 not measured or every recording of a case failed, 2 wrong usage
"""


def add_recordings(commands: Subparsers) -> None:
    """Add the command to those of the laboratory."""
    parser = add_command(
        commands,
        "recordings",
        run_recordings,
        help="long recordings of several kinds, in one table",
        description="Join the utterances of a manifest to recordings of several kinds, send them "
        "one at a time, and count wrong, missing and extra words.",
        epilog=RECORDINGS_EPILOG,
    )
    what = add_input(parser)
    what.add_argument(
        "--cases", default=ALL, metavar="NAME[,NAME…]", help="out of those below (default: all)"
    )
    what.add_argument(
        "--minutes",
        type=number("a number of minutes above 0", lambda value: 0 < value < float("inf")),
        metavar="M",
        help="of audio of a case, at most, but one recording at least (default: all there is)",
    )
    add_flags(what, OPTION)
    how = parser.add_argument_group("how")
    add_flags(how, WARMUP, warmup=count)
    add_url(how)
    add_baseline(how)
    add_output(parser)


def run_recordings(args: argparse.Namespace) -> int:
    """Measure, print the table, write the files and return the exit code."""
    from lab.recordings import cases
    from lab.recordings.report import markdown

    options = options_of(args)
    names = cases.CASE_NAMES if args.cases == ALL else tuple(args.cases.split(","))
    unknown = [name for name in names if name not in cases.CASE_NAMES]
    if unknown:
        known = ", ".join(cases.CASE_NAMES)
        raise UsageError(f"--cases takes {ALL}, or some of {known}; got {unknown[0]!r}")
    report = cases.run(
        cases.RecordingsBenchmark(
            **choice_of(args),
            cases=names,
            minutes=args.minutes,
            url=args.url,
            options=options,
            warmup=args.warmup,
            baseline=args.baseline,
        )
    )
    write_report(args, report, markdown(report))
    figures = [case.conch.run.figures for case in report.cases]
    return 1 if any(item.errors == item.utterances for item in figures) else 0
