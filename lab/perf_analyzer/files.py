"""Input files for NVIDIA's perf_analyzer and Model Analyzer, and the commands that read them.

The format is that of perf_analyzer's "Input Data" (docs/input_data.md of its repository): an object
with the list `data`. A recording is one entry. A live stream is a list of entries, one per chunk:
perf_analyzer sends each list as one sequence, with START on its first entry and END on its last.
Entries hold tensors of one row; batches and sequence ids are perf_analyzer's own.
"""

import argparse
import base64
import json
import math
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conch.bench.load import progress
from conch.bench.samples import DecodedFile, Send, decode
from conch.cli.arguments import UsageError, whole
from conch.cli.bench import SEND, settings_of
from conch.cli.option_flags import parse_options
from conch.client import OptionValue
from conch.client.endpoint import Address
from conch.scoring.manifest import ManifestEntry, read_manifest, spread
from conch.whole import made_whole
from conch.wire.errors import BenchError, OptionError
from lab.command import Command

BEGIN = '{"data": ['
RECORDINGS_FILE = "recordings.json"
STREAMS_FILE = "streams.json"

SESSION = "perf_analyzer"
"""Session of the streams: perf_analyzer counts their ids from 1, as other clients may."""

SEQUENCE_MODEL = "ctc_streaming_encoder"
"""A component with Triton's sequence batcher. perf_analyzer sends sequences to a model only if the
model's config has one, or that of a model that is named as its caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerfAnalyzerInput:
    inputs: Sequence[Path]
    out: Path
    limit: int | None = None
    send: Send = "waveform"
    """Whether entries of recordings hold samples, or the file for the server to decode."""
    chunk_ms: int = 640
    concurrency: Sequence[int] = (1,)
    streams: Sequence[int] = (8,)
    url: str = "grpc://127.0.0.1:8001"
    """Triton's gRPC port. perf_analyzer sends options over gRPC alone."""
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    stream_options: Mapping[str, OptionValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Written:
    recordings: int
    chunks: int
    """Chunks of all streams; there is a stream for each recording."""
    seconds: float


def check(settings: PerfAnalyzerInput) -> None:
    """Raise an error if perf_analyzer cannot ask for it."""
    request_parameters(settings.options)
    request_parameters(settings.stream_options)
    if not Address.parse(settings.url).is_grpc:
        raise BenchError(
            "--url takes grpc://host:port, as perf_analyzer sends options over gRPC alone; "
            f"sent: {settings.url}"
        )


def write(settings: PerfAnalyzerInput) -> Written:
    """Write both files, whole or not at all."""
    paths = spread(recordings_in(settings.inputs), settings.limit)
    chunks, seconds = 0, 0.0
    settings.out.mkdir(parents=True, exist_ok=True)
    with (
        made_whole(settings.out / RECORDINGS_FILE) as made,
        made_whole(settings.out / STREAMS_FILE) as made_streams,
        made.open("w", encoding="utf-8") as recordings,
        made_streams.open("w", encoding="utf-8") as streams,
        progress("writing", len(paths)) as bar,
    ):
        for index, path in enumerate(paths):
            audio = decode(path)
            samples = as_int16(audio)
            whole = encoded(path) if settings.send == "file" else chunk(samples, audio)
            pieces = cut(samples, audio.sample_rate, settings.chunk_ms)
            steps = [chunk(piece, audio) for piece in pieces]
            for file, entry in ((recordings, whole), (streams, steps)):
                file.write(f"{',' if index else BEGIN}\n{json.dumps(entry)}")
            chunks += len(steps)
            seconds += audio.duration_s
            bar.update()
        for file in (recordings, streams):
            file.write("\n]}\n")
    return Written(len(paths), chunks, seconds)


def recordings_in(inputs: Sequence[Path]) -> list[Path]:
    """Return the audio files, with those of manifests in place of the manifests."""
    paths: list[Path] = []
    for path in inputs:
        listed = read_manifest(path) if path.suffix == ".tsv" else [ManifestEntry(path, "")]
        paths += [utterance.path for utterance in listed]
    if not paths:
        raise BenchError(f"{' and '.join(map(str, inputs))} hold no recordings")
    return paths


def as_int16(audio: DecodedFile) -> NDArray[np.int16]:
    """Return the samples [N] as PCM16 has them: -32768 is -1."""
    scaled = np.round(audio.waveform * np.float32(32768))
    clipped: NDArray[np.float32] = np.clip(scaled, -32768, 32767)
    return clipped.astype(np.int16)


def cut(samples: NDArray[np.int16], sample_rate: int, chunk_ms: int) -> Iterator[NDArray[np.int16]]:
    """Yield the chunks of a stream, samples [n]; the last one may be shorter."""
    length = max(1, sample_rate * chunk_ms // 1000)
    for start in range(0, len(samples), length):
        yield samples[start : start + length]


def chunk(samples: NDArray[np.int16], audio: DecodedFile) -> dict[str, Any]:
    return {
        "PCM16": _tensor(samples.astype("<i2").tobytes(), len(samples)),
        "SAMPLE_RATE": {"content": [audio.sample_rate], "shape": [1]},
    }


def encoded(path: Path) -> dict[str, Any]:
    """Return the entry of a file as it is: a BYTES element is its length and then its bytes."""
    data = path.read_bytes()
    return {"AUDIO": _tensor(len(data).to_bytes(4, "little") + data, 1)}


def request_parameters(options: Mapping[str, OptionValue]) -> list[str]:
    """Return the flags that send options.

    perf_analyzer takes NAME:VALUE:TYPE, and its types are bool, int and string.
    """
    flags = []
    for name, value in options.items():
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, float):
            raise OptionError(
                f"option '{name}' takes a whole number here, as perf_analyzer sends no fractions; "
                f"sent: {value:g}"
            )
        if isinstance(value, str) and ":" in value:
            raise OptionError(f"option '{name}' takes no colon here; sent: {value!r:.80}")
        type_name = {bool: "bool", int: "int", str: "string"}[type(value)]
        text = str(value).lower() if type_name == "bool" else value
        flags += ["--request-parameter", f"{name}:{text}:{type_name}"]
    return flags


def commands(settings: PerfAnalyzerInput, written: Written) -> str:
    recordings = [*_data(settings, RECORDINGS_FILE), *request_parameters(settings.options)]
    streams = [
        *_data(settings, STREAMS_FILE),
        *("--bls-composing-models", SEQUENCE_MODEL),
        # Calls of their own overtake each other: at its end perf_analyzer sends END at once.
        "--streaming",
        *request_parameters({"session": SESSION, **settings.stream_options}),
    ]
    chunks_a_stream = written.chunks / written.recordings
    lines = []
    for clients in settings.concurrency:
        count = written.recordings * math.ceil(clients / written.recordings)
        lines += [
            f"# Recordings, {clients} at a time.",
            _command(settings, "speech", recordings, clients, count),
        ]
    clients = settings.concurrency[0]
    count = written.recordings * math.ceil(clients / written.recordings)
    lines += [
        f"# The same to speech_stream, {clients} at a time: a response for each segment.",
        _command(settings, "speech_stream", ["--streaming", *recordings], clients, count),
    ]
    for number in settings.streams:
        rate = number * 1000 / settings.chunk_ms
        # Each stream hears two recordings.
        count = max(math.ceil(rate), math.ceil(2 * number * chunks_a_stream))
        paced = ["--request-rate-range", f"{rate:g}", "--num-of-sequences", str(number)]
        lines += [
            f"# {number} live streams in real time: {rate:g} chunks of {settings.chunk_ms} ms a "
            f"second, for {count / rate:.0f} s.",
            _command(settings, "speech", [*streams, *paced, "--serial-sequences"], None, count),
            f"# {number} live streams, each chunk as soon as the one before is answered.",
            _command(settings, "speech", streams, number, count),
        ]
    return "".join(f"{line}\n" for line in lines)


def _tensor(data: bytes, size: int) -> dict[str, Any]:
    return {"content": {"b64": base64.b64encode(data).decode()}, "shape": [size]}


def _data(settings: PerfAnalyzerInput, name: str) -> list[str]:
    return ["--input-data", str(settings.out / name)]


def _command(
    settings: PerfAnalyzerInput,
    model: str,
    arguments: Sequence[str],
    concurrency: int | None,
    count: int,
) -> str:
    address = Address.parse(settings.url)
    words = ["perf_analyzer", "-m", model, "-i", "grpc", "-u", address.target]
    words += ["--ssl-grpc-use-ssl"] if address.is_secure else []
    words += arguments
    words += ["--concurrency-range", str(concurrency)] if concurrency else []
    return shlex.join([*words, "--request-count", str(count)])


def run_command(args: argparse.Namespace) -> int:
    try:
        settings = settings_of(
            PerfAnalyzerInput,
            args,
            options=parse_options(args.option),
            stream_options=parse_options(args.stream_option, live=True),
        )
        check(settings)
    except OptionError as error:
        raise UsageError(str(error)) from None
    written = write(settings)
    print(
        f"{args.out}: {written.recordings} recordings, {written.seconds:.1f} s, "
        f"{written.chunks} chunks",
        file=sys.stderr,
    )
    print(commands(settings, written), end="")
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
