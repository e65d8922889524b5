"""`python -m lab suite`: run all main benchmarks and write them into a folder."""

import argparse
import sys
from pathlib import Path
from typing import Any

from conch.cli.arguments import Subparsers, add_command, add_flags
from conch.cli.bench_arguments import FIND_LARGEST, add_counts, distinct, write_json
from conch.scoring import COMPARING, require
from lab.arguments import add_baseline, add_whole, folder
from lab.orchestration.command import add_compared, benchmark_of, status_of

EPILOG = """
Writes orchestration, offline and live, each as .json and .md, and the plots into the folder.

example:
  python -m lab suite --manifest speech/manifest.tsv --split dev --limit 24 --folder found

exit codes: 0 measured, 1 not measured or a request failed, 2 wrong usage
"""


def add_suite(commands: Subparsers) -> None:
    """Add the command to those of the laboratory."""
    parser = add_command(
        commands,
        "suite",
        run_suite,
        help="everything in one go: orchestration, offline and live, into a folder",
        description="Run the benchmarks orchestration, offline and live one after the other.",
        epilog=EPILOG,
    )
    how = add_compared(parser)
    add_counts(how, "--streams", "live streams at once (default: 8,16,24)")
    add_whole(how, "--seconds", 30, "of a stream")
    add_flags(how, FIND_LARGEST)
    how.add_argument(
        "--stream-source", metavar="SOURCE", help="of the streams (default: that of --source)"
    )
    add_baseline(how)
    how.add_argument("--folder", type=folder, required=True, help="for everything that is found")


def run_suite(args: argparse.Namespace) -> int:
    """Run the benchmarks, write the folder and return the exit code."""
    from lab.live import benchmark as live
    from lab.live import report as live_report
    from lab.offline import benchmark as offline
    from lab.offline import report as offline_report
    from lab.orchestration import benchmark as orchestration
    from lab.orchestration import plots
    from lab.orchestration import report as orchestration_report

    require("matplotlib", *(["faster_whisper"] if args.baseline else []), extra="lab")
    require(*COMPARING)
    into: Path = args.folder
    orchestrated = benchmark_of(args)
    choice = {name: getattr(args, name) for name in ("manifest", "split", "limit")}
    sent = offline.ComparisonBenchmark(
        **choice,
        source=args.source,
        concurrency=orchestrated.concurrency,
        rates=orchestrated.rates,
        send="file",
        baseline=args.baseline,
    )
    spoken = live.ViewerBenchmark(
        **choice,
        source=args.stream_source or args.source,
        streams=distinct(args.streams or [8, 16, 24]),
        find_largest=args.find_largest,
        seconds=args.seconds,
    )
    # Report a wrong selection now, not after half an hour.
    for selection in (sent, spoken):
        selection.utterances()
    compared = orchestration.run(orchestrated)
    _write(into, "orchestration", compared, orchestration_report.markdown(compared))
    recordings = offline.run(sent)
    _write(into, "offline", recordings, offline_report.markdown(recordings))
    streams = live.run(spoken)
    _write(into, "live", streams, live_report.markdown(streams))
    plots.write(compared.systems, into)
    errors = [item.judged.run.figures.errors for item in recordings.runs]
    # The other runs searched for the largest number of streams, so their errors are expected.
    errors += [item.run.errors for item in streams.runs[: len(spoken.streams)]]
    return 1 if any(errors) else status_of(compared)


def _write(into: Path, name: str, report: Any, table: str) -> None:
    print(table)
    write_json(into / f"{name}.json", report)
    (into / f"{name}.md").write_text(table, encoding="utf-8")
    print(f"lab suite: {into / name}.json and .md written", file=sys.stderr)
