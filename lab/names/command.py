"""`python -m lab names`: what hotwords find, what they spoil and what they cost."""

import argparse
from collections.abc import Mapping
from typing import Any

from conch.cli.arguments import UsageError
from conch.cli.bench_arguments import LIMIT, URL, write_report
from conch.wire.errors import OptionError
from lab.arguments import named_options, settings_of
from lab.command import Command
from lab.names import benchmark
from lab.names.benchmark import LISTED, RUNS


def run_command(args: argparse.Namespace) -> int:
    settings = settings_of(benchmark.NamesBenchmark, args, runs=dict(args.runs) or RUNS)
    if args.list:
        listed = benchmark.listed(settings)
        print("\n".join((*listed.said, "", *listed.distractors)))
        return 0
    try:
        report = benchmark.run(settings)
    except OptionError as error:
        raise UsageError(str(error)) from None
    write_report(args, report, benchmark.markdown(report))
    return 1 if any(item.errors == report.utterances for item in report.runs) else 0


def _run(text: str) -> tuple[str, Mapping[str, Any]]:
    if text in RUNS:
        return text, RUNS[text]
    name, *pairs = text.split(":")
    others = [pair for pair in pairs if pair not in LISTED]
    _, options = named_options(":".join([name, *others]))
    return name, {**options, **{key: True for key in LISTED if key in pairs}}


def _add(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(split="dev")
    parser.add_argument(
        "--run",
        dest="runs",
        type=_run,
        action="append",
        default=[],
        metavar="NAME[:OPTION=VALUE]…",
        help="a run, as often as needed (default: every decoder with and without hotwords)",
    )


COMMAND = Command(
    run=run_command,
    description="Send a split with a list of hotwords: rare names that it speaks of, among names "
    "of the training split that are never said. Count the names that are found.",
    epilog="""
A run is a name and its options. `names`, `hotwords` and `prompt` among them without a value stand
for the list. A name alone is one of the default runs: moonshine, moonshine beam, attention, ctc,
ctc fusion, wfst, each also with ` hotwords` behind it.

examples:
  python -m lab names --manifest speech/manifest.tsv
  python -m lab names --manifest speech/manifest.tsv --limit 60 --run wfst --run "wfst hotwords"
  python -m lab names --manifest speech/manifest.tsv --run wfst \\
      --run "graph at 6:decoder=wfst:hotword_weight=6:hotwords"
  python -m lab names --manifest speech/manifest.tsv --names 40 --distractors 0 \\
      --run attention --run "attention hotwords" --run prompted:prompt
""",
    flags=LIMIT
    + """
--train-split NAME=train  whose names are distractors, and whose words are not looked for
--names N=100             names to find
--distractors COUNT=1000      names in the list that are never said
--unlisted                take only names that the graph in Conch lacks, for a graph with words of
                          one's own
--list                    print the list of hotwords and measure nothing
--concurrency N=1         clients at once
"""
    + URL,
    add=_add,
    takes_manifest=True,
)
