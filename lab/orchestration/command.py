"""`conch bench orchestration` and `conch bench suite`: next to the alternatives, and everything."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from conch.cli.arguments import positive
from conch.cli.bench_arguments import (
    add_find_largest,
    add_output,
    add_rate,
    add_what,
    counts,
    folder,
    in_order,
    settings,
    write_json,
    write_report,
)

if TYPE_CHECKING:
    from conch.bench.orchestration import OrchestrationBenchmark

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

ORCHESTRATION_EPILOG = """
The systems are: conch; in process; in process, unbatched; blocking x1, x4 and x8 (see --instances);
conch, no VAD; ensemble, no VAD; faster-whisper. docs/performance.md tells what each is.

examples:
  conch bench orchestration --manifest speech/manifest.tsv --split dev --limit 24 --json found.json
  conch bench orchestration --manifest calls.tsv --only conch --only "in process" --concurrency 4 \\
      --no-extras
  conch bench orchestration --manifest calls.tsv --only conch --no-extras \\
      --vary attention_decoder.intra_threads=1,attention_encoder.intra_threads=1 \\
      --vary attention_decoder.dynamic_batching.max_queue_delay_microseconds=0

exit codes: 0 measured, 1 not measured or a request failed, 2 wrong usage
"""

SUITE_EPILOG = """
Writes offline, orchestration and streaming, each as .json and .md, and the plots into the folder.

example:
  conch bench suite --manifest speech/manifest.tsv --split dev --limit 24 --folder found

exit codes: 0 measured, 1 not measured or a request failed, 2 wrong usage
"""


def run_orchestration(args: argparse.Namespace) -> int:
    """Measure, print the tables, write the files and return the exit code."""
    from conch.bench import orchestration, orchestration_report, plots, require

    if args.plots:
        require("matplotlib")
    report = orchestration.run(_orchestration_benchmark(args))
    write_report(args, report, orchestration_report.markdown(report))
    if args.plots:
        plots.write(report, args.plots)
    return _status(report)


def run_suite(args: argparse.Namespace) -> int:
    """Measure everything, write the folder and return the exit code."""
    from conch.bench import (
        goals,
        live_figures,
        offline,
        orchestration,
        orchestration_report,
        plots,
        report,
        require,
        streaming,
    )
    from conch.bench.manifest import chosen

    require("matplotlib", "faster_whisper", "jiwer", "whisper_normalizer")
    into: Path = args.folder
    orchestrated = _orchestration_benchmark(args)
    choice = {name: getattr(args, name) for name in ("manifest", "split", "limit")}
    sent = offline.OfflineBenchmark(
        **choice,
        source=args.source,
        concurrency=orchestrated.concurrency,
        rates=orchestrated.rates,
        send="file",
    )
    streamed = streaming.StreamingBenchmark(
        **choice,
        source=args.stream_source or args.source,
        streams=in_order(args.streams or [[8, 16, 24]]),
        find_largest=args.find_largest,
        seconds=args.seconds,
    )
    # What is wrong with a selection is said now, not after half an hour.
    for selection in (sent, streamed):
        chosen(selection)
    compared = orchestration.run(orchestrated)
    _write(into, "orchestration", compared, orchestration_report.markdown(compared))
    recordings = offline.run(sent)
    _write(into, "offline", recordings, report.markdown(recordings))
    live = streaming.run(streamed)
    found = goals.streaming(live)
    live["goals"] = found
    table = f"{orchestration_report.goals_table(found)}\n\n{live_figures.markdown(live)}"
    _write(into, "streaming", live, table)
    plots.write(compared, into)
    # Those beyond were sent to find out how many are too many.
    live_runs = live["runs"][: len(streamed.streams)]
    failed = any(item["errors"] for item in (*recordings["runs"], *live_runs))
    return 1 if failed else _status(compared)


def _write(into: Path, name: str, report: Mapping[str, Any], table: str) -> None:
    print(table)
    write_json(into / f"{name}.json", report)
    (into / f"{name}.md").write_text(table, encoding="utf-8")
    print(f"conch bench: {into / name}.json and .md written", file=sys.stderr)


def _orchestration_benchmark(args: argparse.Namespace) -> "OrchestrationBenchmark":
    from conch.bench.orchestration import OrchestrationBenchmark

    return OrchestrationBenchmark(
        manifest=args.manifest,
        split=args.split,
        source=args.source,
        limit=args.limit,
        concurrency=in_order(args.concurrency or [[1, 4, 8]]),
        rates=in_order(args.rate or []),
        instances=in_order(args.instances or [[1, 4, 8]]),
        only=args.only,
        varied=args.vary,
        runs=args.runs,
        extras=not args.no_extras,
    )


def _status(report: Mapping[str, Any]) -> int:
    runs = [run for system in report["systems"].values() for run in system["runs"]]
    return 1 if any(run["errors"] for run in runs) else 0


def add_orchestration(benchmarks: Subparsers) -> None:
    """Add the command to those of `conch bench`."""
    parser = benchmarks.add_parser(
        "orchestration",
        help="the offline road by Conch, and by everything that it could be run by",
        description="Run the offline road over the same weights and recordings by Conch, in one "
        "process, by a blocking BLS model, by an ensemble and by faster-whisper; measure a BLS "
        "call, and what orchestration adds to an utterance.",
        epilog=ORCHESTRATION_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_compared(parser)
    out = add_output(parser)
    out.add_argument("--plots", type=folder, metavar="FOLDER", help="for the PNG files")
    parser.set_defaults(run=run_orchestration)


def add_suite(benchmarks: Subparsers) -> None:
    """Add the command to those of `conch bench`."""
    parser = benchmarks.add_parser(
        "suite",
        help="everything in one go: orchestration, offline and streaming, into a folder",
        description="Run the benchmarks orchestration, offline and streaming one after the other.",
        epilog=SUITE_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    how = _add_compared(parser)
    how.add_argument(
        "--streams",
        type=counts,
        action="append",
        metavar="N[,N…]",
        help="live streams at once (default: 8,16,24)",
    )
    how.add_argument(
        "--seconds", type=positive, default=30, metavar="N", help="of a stream (default: 30)"
    )
    add_find_largest(how)
    how.add_argument(
        "--stream-source", metavar="SOURCE", help="of the streams (default: that of --source)"
    )
    how.add_argument("--folder", type=folder, required=True, help="for everything that is found")
    parser.set_defaults(run=run_suite)


def _add_compared(parser: argparse.ArgumentParser) -> "argparse._ArgumentGroup":
    add_what(parser)
    how = parser.add_argument_group("how")
    how.add_argument(
        "--concurrency",
        type=counts,
        action="append",
        metavar="N[,N…]",
        help="clients of the closed loops (default: 1,4,8)",
    )
    add_rate(how)
    how.add_argument(
        "--instances",
        type=counts,
        action="append",
        metavar="N[,N…]",
        help="of the blocking BLS model (default: 1,4,8)",
    )
    how.add_argument(
        "--runs", type=positive, default=3, metavar="N", help="rounds through all (default: 3)"
    )
    how.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="SYSTEM",
        help="a system to measure, as often as needed (default: all)",
    )
    how.add_argument(
        "--vary",
        type=settings,
        action="append",
        default=[],
        metavar="MODEL.NAME=VALUE[,…]",
        help="Conch with these settings as well, a system for each --vary: NAME is a parameter in "
        "the model's config.pbtxt, a single number elsewhere in it, or instances",
    )
    how.add_argument(
        "--no-extras",
        action="store_true",
        help="leave out the cost of a BLS call and the time added to an utterance of 5 s",
    )
    return how
