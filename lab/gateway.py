"""`python -m lab gateway`: what a gateway adds to the work that Triton does for the same load.

The benchmark starts a Triton and a gateway, each a process of its own. A file goes to Triton by
gRPC and to the gateway by HTTP, in turn, so that a change of the machine meets both. Then live
streams are sent in real time, first to Triton and then to the gateway, and the CPU time of both
programs is read.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import psutil
from numpy.typing import NDArray

from conch.bench.figures import Latency, latency_ms
from conch.bench.header import Flat, Header
from conch.bench.load import progress
from conch.bench.memory import MemorySampler, cpu_by_process
from conch.bench.samples import decode
from conch.bench.servers import own_server, triton_version
from conch.cli.bench import settings_of
from conch.cli.demo import SPEECH
from conch.client import AsyncClient
from conch.scoring.error_rates import number, table
from lab.command import Command, lab_header, reporting
from lab.gateway_process import gateway_with
from lab.pacing import paced
from lab.waveforms import audio_file

CHUNK_S = 0.1
"""Seconds of a chunk of a live stream, as microphones give them."""
WARM_UP = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayBenchmark:
    audio: Path
    file_s: float = 5.0
    requests: int = 40
    streams: Sequence[int] = (1, 8)
    seconds: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFigures:
    """A file sent to both, one request at a time."""

    direct_ms: Latency
    gateway_ms: Latency
    added_ms: float
    """Median of the differences of successive requests."""
    gateway_cpu_ms: float
    """CPU time of the gateway for each request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFigures:
    streams: int
    direct_cpu: float
    """CPU seconds of Triton for each second of audio, sent by gRPC."""
    gateway_cpu: float
    """CPU seconds of the gateway for each second of audio."""

    @property
    def share(self) -> float:
        """Return the gateway's part of the CPU time of the same streams without it."""
        return self.gateway_cpu / self.direct_cpu


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayReport:
    header: Flat[Header]
    files: FileFigures
    live: Sequence[StreamFigures]


def run(benchmark: GatewayBenchmark) -> GatewayReport:
    recording = decode(benchmark.audio)
    samples = (recording.waveform * 32_767).astype(np.int16)
    begun = lab_header("gateway", benchmark)
    with (
        own_server(is_grpc=True) as (url, memory),
        TemporaryDirectory() as folder,
        gateway_with(url, Path(folder, "gateway.log")) as gateway,
    ):
        sides = _Sides(url, f"http://{gateway.http}", memory, psutil.Process(gateway.pid))
        files = asyncio.run(_files(sides, samples, recording.sample_rate, benchmark))
        live = [
            asyncio.run(_streams(sides, samples, recording.sample_rate, streams, benchmark.seconds))
            for streams in benchmark.streams
        ]
        version = triton_version(url)
    return GatewayReport(header=begun.with_triton(version), files=files, live=live)


def markdown(report: GatewayReport) -> str:
    files = report.files
    rows = [
        ["p50 ms", number(files.direct_ms.p50), number(files.gateway_ms.p50)],
        ["p95 ms", number(files.direct_ms.p95), number(files.gateway_ms.p95)],
        ["added ms, median of pairs", "", number(files.added_ms, 2)],
        ["CPU ms of the gateway", "", number(files.gateway_cpu_ms, 2)],
    ]
    live = [
        [
            str(item.streams),
            number(item.direct_cpu, 4),
            number(item.gateway_cpu, 4),
            number(100 * item.share),
        ]
        for item in report.live
    ]
    columns = ("streams", "direct", "gateway", "gateway, %")
    return (
        f"{table(('a file', 'gRPC to Triton', 'gateway'), rows)}\n\n"
        f"CPU seconds for each second of live audio:\n\n{table(columns, live)}\n"
    )


@dataclass(frozen=True, slots=True)
class _Sides:
    direct_url: str
    gateway_url: str
    memory: MemorySampler
    """Of all processes, the gateway among them."""
    gateway: psutil.Process

    def cpu_s(self) -> tuple[float, float]:
        """Return the CPU seconds of Triton with its models, and of the gateway, so far."""
        decoders_s = sum(cpu_by_process(self.gateway.pid).values())
        gateway_s = float(sum(self.gateway.cpu_times()[:2])) + decoders_s
        return sum(self.memory.cpu_s().values()) - gateway_s, gateway_s


async def _files(
    sides: _Sides, samples: NDArray[np.int16], rate: int, benchmark: GatewayBenchmark
) -> FileFigures:
    content = audio_file(np.resize(samples, round(benchmark.file_s * rate)), rate)
    async with AsyncClient(sides.direct_url) as direct, AsyncClient(sides.gateway_url) as through:
        for _ in range(WARM_UP):
            await _timed(direct, content)
            await _timed(through, content)
        pairs, gateway_s = [], 0.0
        with progress("files", benchmark.requests) as bar:
            for _ in range(benchmark.requests):
                direct_s = await _timed(direct, content)
                _, before = sides.cpu_s()
                pairs.append((direct_s, await _timed(through, content)))
                gateway_s += sides.cpu_s()[1] - before
                bar.update()
    return FileFigures(
        direct_ms=latency_ms([pair[0] for pair in pairs]),
        gateway_ms=latency_ms([pair[1] for pair in pairs]),
        added_ms=round(1000 * median(pair[1] - pair[0] for pair in pairs), 3),
        gateway_cpu_ms=round(1000 * gateway_s / len(pairs), 3),
    )


async def _timed(client: AsyncClient, content: bytes) -> float:
    began = time.perf_counter()
    await client.transcribe(content)
    return time.perf_counter() - began


async def _streams(
    sides: _Sides, samples: NDArray[np.int16], rate: int, streams: int, seconds: float
) -> StreamFigures:
    spoken = np.resize(samples, round(seconds * rate))
    taken_s = []
    for side, url in enumerate((sides.direct_url, sides.gateway_url)):
        before = sides.cpu_s()[side]
        async with AsyncClient(url) as client:
            await asyncio.gather(
                *(_speak(client, spoken, rate, number / streams) for number in range(streams))
            )
        taken_s.append(sides.cpu_s()[side] - before)
    direct_cpu, gateway_cpu = (round(item / (streams * seconds), 5) for item in taken_s)
    return StreamFigures(streams=streams, direct_cpu=direct_cpu, gateway_cpu=gateway_cpu)


async def _speak(client: AsyncClient, spoken: NDArray[np.int16], rate: int, delay_s: float) -> None:
    async with client.live(sample_rate=rate, resume_s=0) as stream:
        async for chunk in paced(spoken, rate, CHUNK_S, time.perf_counter() + delay_s):
            await stream.send(chunk)
        await stream.finish()


COMMAND = Command(
    run=reporting(lambda args: run(settings_of(GatewayBenchmark, args)), markdown),
    description="Measure the latency and the CPU time that a gateway adds to a file and to live "
    "streams.",
    epilog="""
The benchmark starts a server and a gateway. It sends a file to both in turn, and live streams in
real time to one after the other. Nothing else should run on the machine.

examples:
  python -m lab gateway --markdown gateway.md
  python -m lab gateway --audio talk.wav --file-s 30 --streams 1,16,32 --seconds 60
""",
    flags="""
--audio FILE     a recording (default: the one of conch demo)
--file-s S=5     length of the file
--requests N=40  to each side
--streams N[,N…]=1,8  live streams at once; several numbers make one run each
--seconds S=30   length of each run of live streams
""",
    types={"audio": (Path, SPEECH)},
)
