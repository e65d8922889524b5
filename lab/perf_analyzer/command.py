"""`python -m lab perf-analyzer-input`: input files for NVIDIA's perf_analyzer."""

import argparse
import sys
from pathlib import Path

from conch.cli.arguments import Subparsers, UsageError, add_command, add_flags, number, positive
from conch.cli.bench import SEND, add_counts
from conch.wire.errors import OptionError
from lab.arguments import settings_of

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
FLAGS = """
--limit N         at most N recordings, spread evenly
--chunk-ms N=640  milliseconds of a chunk of a live stream
--out FOLDER!     gets the files
--url URL=grpc://127.0.0.1:8001  Triton's gRPC port
--option NAME=VALUE...         a request option of recordings
--stream-option NAME=VALUE...  a request option of live streams
"""
chunk_ms = number("milliseconds from 20 to 60000", lambda value: 20 <= value <= 60_000)


def add_perf_analyzer_input(commands: Subparsers) -> None:
    parser = add_command(
        commands,
        "perf-analyzer-input",
        run_perf_analyzer_input,
        help="input files and commands for NVIDIA's perf_analyzer",
        description="Write recordings in the form that NVIDIA's perf_analyzer and Model Analyzer "
        "read, as offline requests and as live streams, and print the commands to run.",
        epilog=EPILOG,
    )
    parser.add_argument(
        "inputs", nargs="+", type=Path, metavar="FILE", help="a recording, or a manifest (.tsv)"
    )
    add_flags(parser, FLAGS + SEND, limit=positive, chunk_ms=chunk_ms, out=Path)
    how = parser.add_argument_group("commands")
    clients = "recordings at once; several numbers make one command each (default: 1)"
    add_counts(how, "--concurrency", clients)
    streams = "live streams at once; several numbers make one pair of commands each (default: 8)"
    add_counts(how, "--streams", streams)


def run_perf_analyzer_input(args: argparse.Namespace) -> int:
    from conch.cli.option_flags import parse_options
    from lab.perf_analyzer import files

    try:
        settings = settings_of(
            files.PerfAnalyzerInput,
            args,
            chunk_ms=round(args.chunk_ms),
            options=parse_options(args.option),
            stream_options=parse_options(args.stream_option, live=True),
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
