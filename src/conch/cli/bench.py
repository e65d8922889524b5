"""`conch bench`: how fast, how right and how large a server is."""

import argparse
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from conch.cli.arguments import output, positive
from conch.cli.bench_arguments import (
    add_joining,
    add_option,
    add_output,
    add_rate,
    add_url,
    add_what,
    count,
    counts,
    in_order,
    joining,
    write_report,
)
from conch.cli.bench_growth import add_growth
from conch.cli.bench_manifest import add_manifest
from conch.cli.bench_orchestration import add_orchestration, add_suite
from conch.cli.bench_recordings import add_recordings
from conch.cli.bench_streaming import add_streaming
from conch.errors import BenchError, OptionError
from conch.signals import interrupt_on_sigterm

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

OFFLINE_EPILOG = """
The manifest is a text file, columns apart by tabs, with a header line: path and text, optionally
split and source. Paths are relative to it. Without a text there is no WER for that utterance.

examples:
  conch bench offline --manifest speech/manifest.tsv --split dev --concurrency 1,8 \\
      --baseline faster-whisper --json offline.json --markdown offline.md
  conch bench offline --manifest calls.tsv --url grpc://gpu-box:8001 --option rescore=true \\
      --option nbest=5 --limit 100
  conch bench offline --manifest speech/manifest.tsv --split dev --join 600 --pause 1,3 \\
      --between music --baseline faster-whisper

exit codes: 0 measured, 1 not measured or every request of a run failed, 2 wrong usage
"""

ROADS_EPILOG = """
examples:
  conch bench roads --manifest speech/manifest.tsv --split dev --plot roads.png
  conch bench roads --manifest calls.tsv --road fast:decoder=ctc:beam_size=1 --road best

exit codes: 0 measured, 1 not measured or every request of a road failed, 2 wrong usage
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the command to those of `conch`."""
    parser = subparsers.add_parser(
        "bench", help="measure a server", description="Measure a server and print a table."
    )
    benchmarks = parser.add_subparsers(required=True, metavar="BENCHMARK")
    _add_offline(benchmarks)
    add_recordings(benchmarks)
    _add_roads(benchmarks)
    add_streaming(benchmarks)
    _add_decoder(benchmarks)
    add_orchestration(benchmarks)
    add_suite(benchmarks)
    add_growth(benchmarks)
    add_manifest(benchmarks)
    for benchmark in benchmarks.choices.values():
        benchmark.set_defaults(run=partial(_in_order, benchmark.get_default("run")))


def _in_order(run: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    """Run a benchmark, whose servers and folders are gone after a SIGTERM too."""
    interrupt_on_sigterm()
    return run(args)


def run_roads(args: argparse.Namespace) -> int:
    """Measure, print the table, write the files and return the exit code."""
    from conch.bench import require, roads

    if args.plot:
        require("matplotlib")
    named = dict(args.road) or roads.ROADS
    report = roads.run(
        roads.RoadsBenchmark(
            manifest=args.manifest,
            split=args.split,
            source=args.source,
            limit=args.limit,
            concurrency=args.concurrency,
            url=args.url,
            roads=named,
        )
    )
    write_report(args, report, roads.markdown(report))
    if args.plot:
        roads.plot(report["roads"], args.plot)
    return 1 if any(road["errors"] == road["utterances"] for road in report["roads"]) else 0


def run_decoder(args: argparse.Namespace) -> int:
    """Measure, print the table, write the files and return the exit code."""
    from conch.bench import decoding

    report = decoding.run(
        decoding.DecoderBenchmark(
            manifest=args.manifest,
            split=args.split,
            source=args.source,
            limit=args.limit,
            batch_size=args.batch_size,
            beam_size=args.beam_size,
            runs=args.runs,
            device=args.device,
        )
    )
    write_report(args, report, decoding.markdown(report))
    return 0


def run(args: argparse.Namespace) -> int:
    """Measure, print the table, write the files and return the exit code."""
    # Only who measures waits for numpy and the clients.
    from conch.bench import offline
    from conch.bench.options import parse_options
    from conch.bench.report import markdown

    try:
        options = parse_options(args.option)
        how_joined = joining(args)
    except (OptionError, BenchError) as error:
        print(f"conch bench: {error}", file=sys.stderr)
        return 2
    closed = in_order(args.concurrency or ([] if args.rate else [[1]]))
    report = offline.run(
        offline.OfflineBenchmark(
            manifest=args.manifest,
            split=args.split,
            source=args.source,
            limit=args.limit,
            concurrency=closed,
            rates=in_order(args.rate or []),
            url=args.url,
            options=options,
            joining=how_joined,
            save=args.save,
            send=args.send,
            warmup=args.warmup,
            baseline=args.baseline,
        )
    )
    write_report(args, report, markdown(report))
    return 1 if any(run["errors"] == run["utterances"] for run in report["runs"]) else 0


def _add_offline(benchmarks: Subparsers) -> None:
    parser = benchmarks.add_parser(
        "offline",
        help="whole recordings, in a closed loop or paced",
        description="Send whole recordings in a closed loop, so many clients, each sending its "
        "next recording when the last one is answered; or paced, so many a second, whether or not "
        "earlier ones are answered.",
        epilog=OFFLINE_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = add_what(parser)
    what.add_argument(
        "--send",
        choices=("waveform", "file"),
        default="waveform",
        help="samples decoded beforehand, or the files for the server to decode "
        "(default: waveform)",
    )
    add_option(what)
    add_joining(parser.add_argument_group("long recordings, joined of the utterances"))
    how = parser.add_argument_group("how")
    how.add_argument(
        "--concurrency",
        type=counts,
        action="append",
        metavar="N[,N…]",
        help="clients at once; several numbers give one run each (default: 1)",
    )
    add_rate(how)
    how.add_argument(
        "--warmup",
        type=count,
        default=8,
        metavar="N",
        help="requests before each run that are not counted, utterances also where they are "
        "joined (default: 8)",
    )
    add_url(how)
    how.add_argument(
        "--baseline",
        choices=("faster-whisper",),
        help="measure this too, on the same recordings, with the same weights, in one process",
    )
    add_output(parser)
    parser.set_defaults(run=run)


def _add_roads(benchmarks: Subparsers) -> None:
    parser = benchmarks.add_parser(
        "roads",
        help="accuracy against speed of several roads",
        description="Send the same recordings down several roads of one server, one after the "
        "other, in a closed loop.",
        epilog=ROADS_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_what(parser).add_argument(
        "--road",
        type=_road,
        action="append",
        default=[],
        metavar="NAME[:OPTION=VALUE]…",
        help="a road and its options, as often as needed (default: every decoder, with and without "
        "each kind of rescoring)",
    )
    how = parser.add_argument_group("how")
    how.add_argument(
        "--concurrency", type=positive, default=4, metavar="N", help="clients at once (default: 4)"
    )
    add_url(how)
    out = add_output(parser)
    out.add_argument("--plot", type=output, metavar="FILE.png", help="WER against RTFx")
    parser.set_defaults(run=run_roads)


def _add_decoder(benchmarks: Subparsers) -> None:
    parser = benchmarks.add_parser(
        "decoder",
        help="CTC decoding alone, next to pyctcdecode",
        description="Decode the CTC model's log probabilities of real recordings in every way, and "
        "by pyctcdecode, on one thread and without a server. Needs pyctcdecode and kenlm.",
    )
    add_what(parser)
    how = parser.add_argument_group("how")
    add_number = partial(how.add_argument, type=positive, metavar="N")
    add_number("--batch-size", default=32, help="utterances searched together (default: 32)")
    add_number("--beam-size", default=10, help="(default: 10)")
    add_number("--runs", default=5, help="of which the median counts (default: 5)")
    how.add_argument("--device", default="cpu", help="of the beam: cpu or cuda (default: cpu)")
    add_output(parser)
    parser.set_defaults(run=run_decoder)


def _road(text: str) -> tuple[str, Mapping[str, Any]]:
    from conch.bench.options import parse_options

    name, *pairs = text.split(":")
    try:
        return name, parse_options(pairs)
    except OptionError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
