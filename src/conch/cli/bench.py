"""`conch bench`: how fast, how right and how large a server is."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from conch.cli.arguments import positive
from conch.errors import OptionError

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

OFFLINE_EPILOG = """
The manifest is a text file, columns apart by tabs, with a header line: path and text, optionally
split and source. Paths are relative to it. Without a text there is no WER for that utterance.

examples:
  conch bench offline --manifest speech/manifest.tsv --split dev --concurrency 1,8 \\
      --baseline faster-whisper --json offline.json --markdown offline.md
  conch bench offline --manifest calls.tsv --url grpc://gpu-box:8001 --option rescore=true \\
      --option nbest=5 --limit 100

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
    _add_roads(benchmarks)


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
    _write(args, report, roads.markdown(report))
    if args.plot:
        roads.plot(report["roads"], args.plot)
    return 1 if any(road["errors"] == road["utterances"] for road in report["roads"]) else 0


def run(args: argparse.Namespace) -> int:
    """Measure, print the table, write the files and return the exit code."""
    # Only who measures waits for numpy and the clients.
    from conch.bench import offline
    from conch.bench.options import parse_options
    from conch.bench.report import markdown

    try:
        options = parse_options(args.option)
    except OptionError as error:
        print(f"conch bench: {error}", file=sys.stderr)
        return 2
    report = offline.run(
        offline.OfflineBenchmark(
            manifest=args.manifest,
            split=args.split,
            source=args.source,
            limit=args.limit,
            concurrency=_in_order(args.concurrency or [[1]]),
            url=args.url,
            options=options,
            send=args.send,
            warmup=args.warmup,
            baseline=args.baseline,
        )
    )
    _write(args, report, markdown(report))
    return 1 if any(run["errors"] == run["utterances"] for run in report["runs"]) else 0


def _write(args: argparse.Namespace, report: Mapping[str, Any], table: str) -> None:
    print(table, end="")
    if args.json:
        text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
        args.json.write_text(text, encoding="utf-8")
    if args.markdown:
        args.markdown.write_text(table, encoding="utf-8")


def _add_offline(benchmarks: Subparsers) -> None:
    parser = benchmarks.add_parser(
        "offline",
        help="whole recordings, in a closed loop",
        description="Send whole recordings in a closed loop: so many clients, each sending its "
        "next recording when the last one is answered.",
        epilog=OFFLINE_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = _add_what(parser)
    what.add_argument(
        "--send",
        choices=("waveform", "file"),
        default="waveform",
        help="samples decoded beforehand, or the files for the server to decode "
        "(default: waveform)",
    )
    what.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a request option, as often as needed",
    )
    how = parser.add_argument_group("how")
    how.add_argument(
        "--concurrency",
        type=_counts,
        action="append",
        metavar="N[,N…]",
        help="clients at once; several numbers give one run each (default: 1)",
    )
    how.add_argument(
        "--warmup",
        type=_count,
        default=8,
        metavar="N",
        help="requests before each run that are not counted (default: 8)",
    )
    _add_url(how)
    how.add_argument(
        "--baseline",
        choices=("faster-whisper",),
        help="measure this too, on the same recordings, with the same weights, in one process",
    )
    _add_output(parser)
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
    _add_what(parser).add_argument(
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
    _add_url(how)
    out = _add_output(parser)
    out.add_argument("--plot", type=_output, metavar="FILE.png", help="WER against RTFx")
    parser.set_defaults(run=run_roads)


def _add_what(parser: argparse.ArgumentParser) -> "argparse._ArgumentGroup":
    what = parser.add_argument_group("what is sent")
    what.add_argument("--manifest", type=Path, required=True, metavar="FILE.tsv")
    what.add_argument("--split", help="only utterances of this split")
    what.add_argument("--source", help="only utterances of this source")
    what.add_argument(
        "--limit",
        type=positive,
        metavar="N",
        help="at most N utterances, spread evenly over the manifest, the same ones each time",
    )
    return what


def _add_url(how: "argparse._ArgumentGroup") -> None:
    how.add_argument(
        "--url",
        help="host:port, http:// or grpc:// of a running server; without it one is started, "
        "and its memory measured",
    )


def _add_output(parser: argparse.ArgumentParser) -> "argparse._ArgumentGroup":
    out = parser.add_argument_group("output, besides the table on stdout")
    out.add_argument("--json", type=_output, metavar="FILE", help="every figure")
    out.add_argument("--markdown", type=_output, metavar="FILE", help="the table")
    return out


def _road(text: str) -> tuple[str, Mapping[str, Any]]:
    from conch.bench.options import parse_options

    name, *pairs = text.split(":")
    try:
        return name, parse_options(pairs)
    except OptionError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _in_order(groups: Sequence[Sequence[int]]) -> list[int]:
    return list(dict.fromkeys(count for group in groups for count in group))


def _counts(text: str) -> list[int]:
    return [positive(part) for part in text.split(",")]


def _count(text: str) -> int:
    if not text.strip().isdecimal():
        raise argparse.ArgumentTypeError(f"a whole number from 0 on; got {text!r}")
    return int(text)


def _output(text: str) -> Path:
    # Before a long measurement, not after it.
    path = Path(text)
    if not path.parent.is_dir() or path.is_dir():
        raise argparse.ArgumentTypeError(f"not a file in a folder that exists: {text!r}")
    return path
