"""CPU time of every process of a server: for each request of a path, for each chunk of a stream.

    python -m lab.capacity.stage_cost MANIFEST.tsv --split dev --limit 60

It starts a server, sends every recording down each path (8 at a time), then 8 live streams in real
time. CPU time moves less than wall time where other work shares the machine. It is what
`lab/capacity/capacity.py` computes with.
"""

import argparse
import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conch.bench.memory import cpu_by_process
from conch.bench.samples import DecodedFile, decode
from conch.client import AsyncClient
from conch.component.waveform import SAMPLE_RATE
from conch.launcher import ServerConfig, TritonServer
from conch.scoring.manifest import read_manifest, select
from conch.scoring.tables import number, table
from lab.waveforms import resampled

FUSION = {"decoder": "ctc", "lm_fusion": True}
PATHS: Mapping[str, Mapping[str, Any]] = {
    "attention": {},
    "graph": {"decoder": "wfst"},
    "beam with n-gram": FUSION,
}
STREAMS: Mapping[str, Mapping[str, Any]] = {
    "live, graph": {"decoder": "wfst"},
    "live, beam with n-gram": FUSION,
}
AT_ONCE = 8
CHUNK_S = 0.64
STREAM_S = 32.0

Figures = dict[str, float]


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--split")
    parser.add_argument("--limit", type=int)
    args = parser.parse_args()
    chosen = select(read_manifest(args.manifest), split=args.split, limit=args.limit)
    recordings = [decode(item.path) for item in chosen]
    with TritonServer(ServerConfig(log_level="warning")) as server:
        columns = asyncio.run(measure(server.http_url, recordings))
    names = sorted({name for figures in columns.values() for name in figures})
    rows = [
        [name, *(number(figures.get(name, 0.0), 2) for figures in columns.values())]
        for name in names
        if any(figures.get(name, 0.0) > 0.2 for figures in columns.values())
    ]
    print(table(["CPU ms of", *columns], rows))


async def measure(url: str, recordings: Sequence[DecodedFile]) -> dict[str, Figures]:
    """Return the figures of every path and stream."""
    columns: dict[str, Figures] = {}
    async with AsyncClient(url, connections=2 * AT_ONCE) as client:
        for name, options in PATHS.items():
            columns[name] = await offline(client, recordings, options)
        for name, options in STREAMS.items():
            columns[name] = await live(client, recordings, options)
    return columns


async def offline(
    client: AsyncClient, recordings: Sequence[DecodedFile], options: Mapping[str, Any]
) -> Figures:
    """Return CPU ms of every process per request, its mean calls and its mean seconds of audio."""
    places = asyncio.Semaphore(AT_ONCE)

    async def send(recording: DecodedFile) -> int:
        async with places:
            answer = await client.transcribe(
                recording.waveform, sample_rate=recording.sample_rate, **options
            )
            return called(answer)

    seconds = sum(recording.duration_s for recording in recordings)
    return await used([partial(send, item) for item in recordings], seconds)


async def live(
    client: AsyncClient, recordings: Sequence[DecodedFile], options: Mapping[str, Any]
) -> Figures:
    """As `offline`, per chunk."""
    speech = np.concatenate([resampled(item.waveform, item.sample_rate) for item in recordings])
    block = round(CHUNK_S * SAMPLE_RATE)

    async def say(waveform: NDArray[np.float32], delay_s: float) -> int:
        calls = 0
        started = time.perf_counter() + delay_s
        async with client.live(sample_rate=SAMPLE_RATE, **options) as stream:
            for start in range(0, len(waveform), block):
                end = start + block
                await asyncio.sleep(max(0.0, started + end / SAMPLE_RATE - time.perf_counter()))
                chunk = waveform[start:end]
                # The last chunk ends the stream: END alone would be work without a chunk.
                is_last = end == len(waveform)
                calls += called(await (stream.finish(chunk) if is_last else stream.send(chunk)))
        return calls

    length = round(STREAM_S / CHUNK_S) * block
    # Streams do not speak in step: in step the encoder would have all of them in one batch.
    sayings = [
        partial(say, np.resize(np.roll(speech, -index * length), length), index * CHUNK_S / AT_ONCE)
        for index in range(AT_ONCE)
    ]
    return await used(sayings, AT_ONCE * length / SAMPLE_RATE, count=AT_ONCE * length // block)


def called(answer: Any) -> int:
    """Return the calls of components that an answer took."""
    return sum(stage.calls for name, stage in answer.stages.items() if name != "total")


async def used(
    sendings: Sequence[Callable[[], Awaitable[int]]], seconds: float, count: int = 0
) -> Figures:
    """Return what was used by all sendings together, divided by their number or `count`."""
    count = count or len(sendings)
    before = cpu_by_process(os.getpid())
    calls = await asyncio.gather(*(send() for send in sendings))
    after = cpu_by_process(os.getpid())
    found = {name: 1000 * (after[name] - before.get(name, 0.0)) / count for name in after}
    return {**found, "(calls)": sum(calls) / count, "(audio s)": seconds / count}


if __name__ == "__main__":
    main()
