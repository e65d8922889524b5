"""Files with and without streamed answers at once, next to live streams: does one queue serve all?

Half of the files go to `speech`, half to `speech_stream`; all are sent at the same moment. Live
streams send a chunk whenever its last sample would have been spoken.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import numpy as np
import soundfile

from conch.bench.speed import latency_ms
from conch.cli.demo import SPEECH
from conch.client import AsyncClient
from conch.component.waveform import SAMPLE_RATE
from conch.scoring.tables import number, table
from conch.wire.errors import ConchError
from lab.fairness.speech import LANGUAGE, PATIENT_S, speech_of

CHUNK_S = 0.64
SETTLE_S = 5.0
"""Seconds of live streams before the files are sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixed:
    """What became of the files and of the live streams, in milliseconds."""

    files: int
    failed: int
    whole_ms: Sequence[float]
    """Time to the answer of each file that is answered at once."""
    streamed_ms: Sequence[float]
    """Time to the last answer of each file whose answer is streamed."""
    first_ms: Sequence[float]
    """Time to the first segment of these."""
    chunks_ms: Sequence[float]
    """Time to the answer of each live chunk, while files are in work."""


async def measure(url: str, *, files: int, seconds: int, streams: int) -> Mixed:
    """Send files next to live streams.

    Args:
        url: A server of gRPC.
        files: Number of files.
        seconds: Length of each.
        streams: Number of live streams.
    """
    audio = speech_of(seconds)
    chunks: list[float] = []
    async with (
        AsyncClient(url, timeout_s=PATIENT_S, connections=files + 1) as client,
        _talking(client, streams, chunks),
    ):
        await asyncio.sleep(SETTLE_S)
        chunks.clear()
        kinds = [_whole if place % 2 else _streamed for place in range(files)]
        sent = (kind(client, audio) for kind in kinds)
        found = await asyncio.gather(*sent, return_exceptions=True)
        heard = list(chunks)
    answered = [item for item in found if not isinstance(item, BaseException)]
    for error in found:
        if isinstance(error, BaseException) and not isinstance(error, ConchError):
            raise error
    return Mixed(
        files=files,
        failed=len(found) - len(answered),
        whole_ms=[last for first, last in answered if first is None],
        streamed_ms=[last for first, last in answered if first is not None],
        first_ms=[first for first, _ in answered if first is not None],
        chunks_ms=heard,
    )


def markdown(found: Mixed) -> str:
    """Return the table of a measurement."""
    rows = (
        ("file, one answer", found.whole_ms),
        ("file, streamed: last answer", found.streamed_ms),
        ("file, streamed: first segment", found.first_ms),
        ("live chunk", found.chunks_ms),
    )
    cells = []
    for name, values in rows:
        if values:
            found_ms = latency_ms([value / 1000 for value in values])
            shown = (number(value, 0) for value in (found_ms.p50, found_ms.p95, found_ms.p99))
            cells.append((name, str(len(values)), *shown))
    return table(("", "number", "p50 ms", "p95 ms", "p99 ms"), cells)


async def _whole(client: AsyncClient, audio: bytes) -> tuple[float | None, float]:
    began = time.perf_counter()
    await client.transcribe(audio, language=LANGUAGE)
    return None, 1000 * (time.perf_counter() - began)


async def _streamed(client: AsyncClient, audio: bytes) -> tuple[float | None, float]:
    began, first = time.perf_counter(), None
    async for _ in client.stream(audio, language=LANGUAGE):
        first = first or 1000 * (time.perf_counter() - began)
    return first, 1000 * (time.perf_counter() - began)


@asynccontextmanager
async def _talking(client: AsyncClient, streams: int, chunks: list[float]) -> AsyncIterator[None]:
    """Keep live streams open inside a block; add the time of each answer to `chunks`."""
    speech, rate = soundfile.read(SPEECH, dtype="float32")
    assert rate == SAMPLE_RATE
    size = round(CHUNK_S * rate)
    begun = asyncio.get_running_loop().time()

    async def talk(offset: float) -> None:
        async with client.live() as stream:
            place = 0
            while True:
                due = begun + offset + (place + 1) * CHUNK_S
                await asyncio.sleep(due - asyncio.get_running_loop().time())
                await stream.send(
                    np.take(speech, range(place * size, place * size + size), mode="wrap")
                )
                chunks.append(1000 * (asyncio.get_running_loop().time() - due))
                place += 1

    tasks = [asyncio.create_task(talk(CHUNK_S * n / streams)) for n in range(streams)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
