"""`python -m lab gateway`: what a gateway adds to the work that Triton does for the same load.

The benchmark starts a Triton and a gateway, each a process of its own. A file goes to Triton by
gRPC and to the gateway by HTTP, in turn, so that a change of the machine meets both. Then live
streams are sent in real time, first to Triton and then to the gateway, and the CPU time of both
programs is read.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import aiohttp
import numpy as np
import psutil
import soundfile
from numpy.typing import NDArray

from conch.bench.figures import Latency, latency_ms
from conch.bench.header import Flat, Header
from conch.bench.load import progress
from conch.bench.memory import cpu_by_process
from conch.bench.servers import triton_version
from conch.cli.bench import settings_of
from conch.cli.demo import SPEECH
from conch.client import AsyncClient
from conch.launcher import ServerConfig, TritonServer
from conch.scoring.error_rates import number, table
from conch.wire.errors import BenchError
from lab.command import Command, lab_header, reporting
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
    samples, rate = _read(benchmark.audio)
    begun = lab_header("gateway", benchmark)
    print("starting a server and a gateway", file=sys.stderr)
    with (
        TritonServer(ServerConfig(log_level="warning")) as server,
        server.healing(),
        _gateway(f"grpc://{server.grpc_url}") as (gateway_url, gateway),
    ):
        sides = _Sides(f"grpc://{server.grpc_url}", gateway_url, server.pid, gateway)
        files = asyncio.run(_files(sides, samples, rate, benchmark))
        live = [
            asyncio.run(_streams(sides, samples, rate, streams, benchmark.seconds))
            for streams in benchmark.streams
        ]
        version = triton_version(server.http_url)
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


def _read(path: Path) -> tuple[NDArray[np.int16], int]:
    try:
        samples, rate = soundfile.read(path, dtype="int16", always_2d=True)
    except (OSError, RuntimeError) as error:
        raise BenchError(f"{path} cannot be read: {error}") from None
    return samples[:, 0], rate


@dataclass(frozen=True, slots=True)
class _Sides:
    direct_url: str
    gateway_url: str
    triton_pid: int
    gateway: psutil.Process

    def triton_s(self) -> float:
        """Return the CPU seconds of Triton and its models so far."""
        models_s = sum(cpu_by_process(self.triton_pid).values())
        return _cpu_s(psutil.Process(self.triton_pid)) + models_s

    def gateway_s(self) -> float:
        return _cpu_s(self.gateway)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@contextmanager
def _gateway(server_url: str) -> Iterator[tuple[str, psutil.Process]]:
    command = [sys.executable, "-m", "conch.cli", "gateway", "--url", server_url]
    # The caller's own keys would lock it.
    environment = {**os.environ, "XDG_CONFIG_HOME": os.devnull, "CONCH_API_KEYS": ""}
    with subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0", "--log-level", "error"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            assert process.stdout is not None
            urls = (word for line in process.stdout for word in line.split())
            url = next((word for word in urls if word.startswith("http://")), None)
            if url is None:
                raise BenchError("the gateway did not start, for the reason above")
            yield url, psutil.Process(process.pid)
        finally:
            process.terminate()


async def _files(
    sides: _Sides, samples: NDArray[np.int16], rate: int, benchmark: GatewayBenchmark
) -> FileFigures:
    content = audio_file(np.resize(samples, round(benchmark.file_s * rate)), rate)
    async with AsyncClient(sides.direct_url) as client, aiohttp.ClientSession() as session:

        async def direct() -> object:
            return await client.transcribe(content)

        async def through() -> object:
            form = aiohttp.FormData()
            form.add_field("file", content, filename="speech.wav")
            url = f"{sides.gateway_url}/v1/audio/transcriptions"
            async with session.post(url, data=form) as answer:
                answer.raise_for_status()
                return await answer.json()

        for _ in range(WARM_UP):
            await direct()
            await through()
        pairs, gateway_s = [], 0.0
        with progress("files", benchmark.requests) as bar:
            for _ in range(benchmark.requests):
                direct_s = await _timed(direct)
                before = sides.gateway_s()
                pairs.append((direct_s, await _timed(through)))
                gateway_s += sides.gateway_s() - before
                bar.update()
    return FileFigures(
        direct_ms=latency_ms([pair[0] for pair in pairs]),
        gateway_ms=latency_ms([pair[1] for pair in pairs]),
        added_ms=round(1000 * median(pair[1] - pair[0] for pair in pairs), 3),
        gateway_cpu_ms=round(1000 * gateway_s / len(pairs), 3),
    )


async def _timed(ask: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await ask()
    return time.perf_counter() - began


async def _streams(
    sides: _Sides, samples: NDArray[np.int16], rate: int, streams: int, seconds: float
) -> StreamFigures:
    spoken = np.resize(samples, round(seconds * rate))
    audio_s = streams * seconds
    before = sides.triton_s()
    async with AsyncClient(sides.direct_url) as client:

        async def direct(number: int) -> None:
            async with client.live(sample_rate=rate, resume_s=0) as stream:
                begun = time.perf_counter() + number / streams
                async for chunk in paced(spoken, rate, CHUNK_S, begun):
                    await stream.send(chunk)
                await stream.finish()

        await asyncio.gather(*map(direct, range(streams)))
    direct_s = sides.triton_s() - before
    before = sides.gateway_s()
    async with aiohttp.ClientSession() as session:
        await asyncio.gather(
            *(
                _listen(session, sides.gateway_url, spoken, rate, number / streams)
                for number in range(streams)
            )
        )
    gateway_s = sides.gateway_s() - before
    return StreamFigures(
        streams=streams,
        direct_cpu=round(direct_s / audio_s, 5),
        gateway_cpu=round(gateway_s / audio_s, 5),
    )


async def _listen(
    session: aiohttp.ClientSession,
    url: str,
    spoken: NDArray[np.int16],
    rate: int,
    delay_s: float,
) -> None:
    query = {"encoding": "pcm16", "sample_rate": str(rate)}
    async with session.ws_connect(f"{url}/v1/conch/listen", params=query) as socket:
        await socket.receive_json()

        async def send() -> None:
            async for chunk in paced(spoken, rate, CHUNK_S, time.perf_counter() + delay_s):
                await socket.send_bytes(chunk.tobytes())
            await socket.send_json({"type": "close"})

        sending = asyncio.create_task(send())
        async for message in socket:
            event = message.json()
            if event["type"] == "error":
                raise BenchError(f"the gateway: {event['error']['message']}")
            if event["type"] == "end":
                break
        await sending


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
