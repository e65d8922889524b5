"""`python -m lab perf-analyzer-input`: input files for NVIDIA's perf_analyzer."""

import argparse
import sys
from pathlib import Path

from conch.cli.arguments import UsageError, whole
from conch.cli.bench import SEND, settings_of
from conch.cli.option_flags import parse_options
from conch.wire.errors import OptionError
from lab.command import Command
from lab.perf_analyzer import files


def run_command(args: argparse.Namespace) -> int:
    try:
        settings = settings_of(
            files.PerfAnalyzerInput,
            args,
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


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "inputs", nargs="+", type=Path, metavar="FILE", help="a recording, or a manifest (.tsv)"
    )


COMMAND = Command(
    run=run_command,
    description="Write recordings in the form that NVIDIA's perf_analyzer and Model Analyzer read, "
    "as offline requests and as live streams, and print the commands to run.",
    epilog="""
A .tsv file is a manifest, as `conch bench offline` reads it; any other file is a recording. FOLDER
gets recordings.json, with one request for each, and streams.json, with one live stream for each.

Standard output gets the commands, as a script for the shell. perf_analyzer comes with
`pip install perf-analyzer`, and needs glibc 2.38: Debian 13, Ubuntu 24.04. See
lab/perf_analyzer/README.md.

examples:
  python -m lab perf-analyzer-input --out input talk.wav call.mp3 > measure.sh && sh measure.sh
  python -m lab perf-analyzer-input --out input speech/manifest.tsv --limit 50 --streams 8,32 \\
      --option nbest=3 --stream-option mode=streaming
""",
    flags="""
--limit N         at most N recordings, spread evenly
--chunk-ms MS=640  milliseconds of a chunk of a live stream
--out FOLDER!     gets the files
--url URL=grpc://127.0.0.1:8001  Triton's gRPC port
--option NAME=VALUE...         a request option of recordings
--stream-option NAME=VALUE...  a request option of live streams
--concurrency N[,N…]=1  recordings at once; several numbers make one command each
--streams N[,N…]=8  live streams at once; several numbers make one pair of commands each
"""
    + SEND,
    types={"chunk_ms": whole(20, 60_000)},
    add=_add,
    has_report=False,
    codes="0 written; 1 not written; 2 wrong usage",
)
