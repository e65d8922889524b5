"""Measure the time to the first segment of long recordings.

Each recording is sent as a stream, and what it has before the end of its first segment is sent by
itself. The two are sent in turns, so that both have the same load of the machine.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import soundfile

from conch.bench.header import Flat, Header, origin
from conch.bench.samples import Choice
from conch.bench.servers import triton_version
from conch.cli.bench import OPTION, URL, options_of, settings_of
from conch.cli.server import server_url
from conch.client import AsyncClient
from conch.scoring.error_rates import number
from conch.wire.errors import BenchError
from lab.command import Command, lab_header, reporting
from lab.recordings.files import write_recordings
from lab.recordings.joined import Joining
from lab.reports import table_of
from lab.waveforms import audio_file

ENTRY_POINT = "speech_stream"
ANOTHER = ("ctc_encoder", "ctc_decoder")
"""Components that `coverage` calls if they are loaded."""
PATIENT_S = 3600.0
"""Longest wait for an answer, in seconds."""
WARM_UP = 2
"""Times that the first recording's beginning is sent before the first figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstBenchmark(Choice):
    seconds: int = 600
    limit: int | None = 5
    times: int = 3
    options: Mapping[str, Any] = field(default_factory=dict)
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One recording; times are medians, in seconds."""

    length_s: float
    alone_s: float
    """Until the answer's first segment, if its audio ends there."""
    first_s: float
    """Until the first segment of all of the recording."""
    whole_s: float
    """Until the last segment."""

    @property
    def ratio(self) -> float:
        return self.first_s / self.alone_s


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstReport:
    header: Flat[Header]
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Streamed:
    """One answer; times in seconds since it was asked for."""

    first_s: float
    whole_s: float
    first_end: float
    """End of the first segment in the audio, in seconds."""


def run(benchmark: FirstBenchmark) -> FirstReport:
    header = lab_header("first", benchmark)
    utterances = replace(benchmark, limit=None).utterances()
    with TemporaryDirectory(prefix="conch-first-") as folder:
        joining = Joining(seconds=benchmark.seconds)
        made = write_recordings(utterances, joining, Path(folder), benchmark.limit)
        others = (ENTRY_POINT, *ANOTHER)
        with server_url(benchmark.url, [benchmark.options], others=others) as url:
            header = header.with_triton(triton_version(url))
            rows = asyncio.run(_rows(benchmark, url, [item.path for item in made]))
    return FirstReport(header=header, rows=rows)


def markdown(report: FirstReport) -> str:
    audio_s = sum(row.length_s for row in report.rows)
    come_from = origin(report.header, f"{len(report.rows)} recordings", audio_s)
    shown = table_of(
        report.rows,
        (
            ("audio s", lambda row: number(row.length_s, 0)),
            ("alone s", lambda row: number(row.alone_s, 2)),
            ("first s", lambda row: number(row.first_s, 2)),
            ("ratio", lambda row: number(row.ratio, 2)),
            ("whole s", lambda row: number(row.whole_s)),
        ),
    )
    return f"{come_from}\n\n{shown}\n"


async def _rows(benchmark: FirstBenchmark, url: str, paths: Sequence[Path]) -> list[Row]:
    rows = []
    async with AsyncClient(url, timeout_s=PATIENT_S) as client:
        for path in paths:
            whole_file = path.read_bytes()
            waveform, rate = soundfile.read(path, dtype="int16")
            streamed = await _streamed(client, whole_file, benchmark.options)
            beginning = audio_file(waveform[: round(streamed.first_end * rate)], rate, "FLAC")
            for _ in range(WARM_UP):
                await _streamed(client, beginning, benchmark.options)
            alone, whole = [], []
            for _ in range(benchmark.times):
                alone.append(await _streamed(client, beginning, benchmark.options))
                whole.append(await _streamed(client, whole_file, benchmark.options))
            rows.append(
                Row(
                    length_s=round(len(waveform) / rate, 3),
                    alone_s=round(median(item.first_s for item in alone), 3),
                    first_s=round(median(item.first_s for item in whole), 3),
                    whole_s=round(median(item.whole_s for item in whole), 3),
                )
            )
    return rows


async def _streamed(client: AsyncClient, file: bytes, options: Mapping[str, Any]) -> Streamed:
    began = time.perf_counter()
    first_s, first_end = 0.0, 0.0
    async with aclosing(client.stream(file, **options)) as parts:
        async for part in parts:
            if part.segments and not first_end:
                first_s, first_end = time.perf_counter() - began, part.segments[0].end
    if not first_end:
        raise BenchError("an answer has no segment: the recordings must have speech")
    return Streamed(first_s, time.perf_counter() - began, first_end)


COMMAND = Command(
    run=reporting(
        lambda args: run(settings_of(FirstBenchmark, args, options=options_of(args))), markdown
    ),
    description="Join the utterances of a manifest to long recordings, and ask for each as a "
    "stream: how long the first segment takes, alone and in its recording.",
    epilog="""
Without --url every run of the command starts a server. To compare two versions, run it with both in
turns.

examples:
  python -m lab first --manifest speech/manifest.tsv --split dev
  python -m lab first --manifest speech/manifest.tsv --seconds 3600 --limit 1 --times 1
""",
    flags="""
--seconds N=600  of a recording, at least
--limit N=5      recordings at most, spread evenly over the manifest
--times N=3      times that each one is sent
"""
    + OPTION
    + URL,
    takes_manifest=True,
)
