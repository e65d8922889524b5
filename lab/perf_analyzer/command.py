"""`python -m lab perf-analyzer-input`: input files for NVIDIA's perf_analyzer."""

import argparse
import sys
from pathlib import Path

from conch.cli.arguments import Subparsers, UsageError, add_command, add_flags, number, positive
from conch.cli.bench_arguments import SEND, add_counts, distinct
from conch.wire.errors import OptionError

EPILOG = """
A .tsv file is a manifest, as `conch bench offline` reads it; any other file is a recording. FOLDER
gets recordings.json, with one request for each, and streams.json, with one live stream for each.

Standard output gets the commands, as a script for the shell. perf_analyzer comes with
`pip install perf-analyzer`, and needs glibc 2.38: Debian 13, Ubuntu 24.04. See
lab/perf_analyzer/README.md.

examples:
  python -m lab perf-analyzer-input --out input talk.wav call.mp3 > measure.sh && sh measure.sh
  python -m lab perf-analyzer-input --out input speech/manifest.tsv --limit 50 --streams 8,32 \\
      --option nbest=3 --stream-option mode=streaming

exit codes: 0 written; 1 not written; 2 wrong usage
"""


def add_perf_analyzer_input(commands: Subparsers) -> None:
    """Add the command to those of the laboratory."""
    parser = add_command(
        commands,
        "perf-analyzer-input",
        run_perf_analyzer_input,
        help="input files and commands for NVIDIA's perf_analyzer",
        description="Write recordings in the form that NVIDIA's perf_analyzer and Model Analyzer "
        "read, as offline requests and as live streams, and print the commands to run.",
        epilog=EPILOG,
    )
    what = parser.add_argument_group("input")
    what.add_argument(
        "inputs", nargs="+", type=Path, metavar="FILE", help="a recording, or a manifest (.tsv)"
    )
    what.add_argument(
        "--limit", type=positive, metavar="N", help="at most N recordings, spread evenly"
    )
    add_flags(what, SEND)
    chunk_ms = number("milliseconds from 20 to 60000", lambda value: 20 <= value <= 60_000)
    what.add_argument(
        "--chunk-ms",
        type=lambda text: round(chunk_ms(text)),
        default=640,
        metavar="N",
        help="milliseconds of a chunk of a live stream (default: 640)",
    )
    what.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="gets the files")
    what.add_argument("--overwrite", action="store_true", help="replace files of an earlier run")
    how = parser.add_argument_group("what the commands ask for")
    how.add_argument(
        "--url",
        default="grpc://127.0.0.1:8001",
        help="Triton's gRPC port (default: %(default)s)",
    )
    clients = "recordings at once; several numbers make one command each (default: 1)"
    add_counts(how, "--concurrency", clients)
    streams = "live streams at once; several numbers make one pair of commands each (default: 8)"
    add_counts(how, "--streams", streams)
    for flag, of in (("--option", "recordings"), ("--stream-option", "live streams")):
        how.add_argument(
            flag,
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help=f"a request option of {of}; may be given several times",
        )


def run_perf_analyzer_input(args: argparse.Namespace) -> int:
    """Write the files, print the commands and return the exit code."""
    from conch.cli.option_flags import parse_options
    from lab.perf_analyzer import files

    try:
        settings = files.PerfAnalyzerInput(
            inputs=args.inputs,
            folder=args.out,
            limit=args.limit,
            send=args.send,
            chunk_ms=args.chunk_ms,
            concurrency=distinct(args.concurrency or [1]),
            streams=distinct(args.streams or [8]),
            url=args.url,
            options=parse_options(args.option),
            stream_options=parse_options(args.stream_option, live=True),
            overwrite=args.overwrite,
        )
        files.check(settings)
    except OptionError as error:
        raise UsageError(str(error)) from None
    written = files.write(settings)
    print(
        f"{args.out}: {written.recordings} recordings, {written.seconds:.1f} s, "
        f"{written.chunks} chunks",
        file=sys.stderr,
    )
    print(files.commands(settings, written), end="")
    return 0
