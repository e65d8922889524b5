"""Live streams for days: what they take stays the same, and goes back when they end.

One stream with a day of audio at full speed as part of `make nightly`, in minutes with
`STREAM_HOURS=2 make nightly ARGS=tests/integration/test_days.py`.
"""

import asyncio
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import mean

import numpy as np
import pytest
from anonymous import anonymous_mb
from recordings import wer

from conch.bench.memory import cpu_by_process, process_tree, tree_memory
from conch.client import AsyncClient, AsyncLiveStream, Client
from conch.launcher import ServerConfig, TritonServer
from conch.processes import model_processes

HOURS = int(os.environ.get("STREAM_HOURS", "24"))
"""Of audio, at least 2. Each takes two minutes on a core."""

pytestmark = [pytest.mark.server, pytest.mark.nightly, pytest.mark.timeout(600 * HOURS + 600)]

RATE = 16_000
MINUTE = 60 * RATE
STEP = 10_240
SPREAD = 0.05
"""How much more later hours may take than the first ones, of which a share is noise."""
NOISE_MB = 10.0
"""Freed memory of a process that its allocator keeps or gives back, from hour to hour."""
STREAMS, WARM_STREAMS = 511, 16
"""In a burst, as many as `max_streams` leaves beside one more, and before it: the largest batches
take working memory that stays."""
STREAM_MB = 6.3
"""What an encoder keeps of a stream."""


@dataclass(frozen=True)
class Hour:
    """What an hour of a stream took."""

    answer_bytes: float
    """Mean of the answers to its chunks."""
    cpu_s: float
    """Of all models."""
    memory_mb: dict[str, float]
    """Allocated by each model at its end. Not the proportional share (PSS): other servers of the
    machine may map the same files."""


@pytest.fixture(scope="module")
def streaming() -> Iterator[TritonServer]:
    models = ["speech", "vad", "ctc_streaming_encoder", "ctc_streaming_decoder"]
    with TritonServer(ServerConfig(models=models, stop_timeout_s=8)) as running:
        yield running


@pytest.fixture(scope="module")
def default() -> Iterator[TritonServer]:
    """Yield a server as people start it, with all models."""
    with TritonServer(ServerConfig(stop_timeout_s=8)) as running:
        yield running


def allocated_by(server: TritonServer) -> dict[str, float]:
    """Return the anonymous memory of each model's processes and of Triton, in MB."""
    found: defaultdict[str, float] = defaultdict(float)
    for process, model in {server.pid: "tritonserver", **model_processes(server.pid)}.items():
        found[model] += anonymous_mb(process)
    return {model: round(held, 1) for model, held in found.items()}


def minute_of(recordings) -> np.ndarray:
    """A minute of speech with pauses between the utterances, which ends in one."""
    waveforms = [item.waveform() for item in recordings]
    pause = (MINUTE - sum(map(len, waveforms))) // len(waveforms)
    spoken = np.concatenate([np.pad(waveform, (0, pause)) for waveform in waveforms])
    return (np.pad(spoken, (0, MINUTE - len(spoken))) * 32_767).astype(np.int16)


def test_a_day_in_one_stream(streaming, recordings):
    minute = minute_of(recordings)
    reference = " ".join(item.text for item in recordings)
    hours: list[Hour] = []
    with (
        Client(f"grpc://{streaming.grpc_url}", timeout_s=300) as client,
        client.live(mode="streaming", word_timestamps=True, keep_segments=False) as stream,
    ):
        for number in range(HOURS):
            before = sum(cpu_by_process(streaming.pid).values())
            sizes, texts = [], []
            for _ in range(60):
                answer = stream.send(minute)
                sizes.append(len(answer.to_json()))
                texts.append(" ".join(segment.text for segment in answer.segments))
            used = sum(cpu_by_process(streaming.pid).values()) - before
            hours.append(Hour(mean(sizes), used, allocated_by(streaming)))
            print(f"hour {number + 1}:", hours[-1])
            assert answer.duration == 3600 * (number + 1)
            assert wer(" ".join([reference] * 60), " ".join(texts)) < 0.25
        last = stream.finish()

    kept = [segment.index for segment in last.segments]
    assert kept == list(range(kept[0], kept[0] + len(kept)))
    assert last.duration - last.segments[0].end < 600 < last.duration - last.segments[0].start + 60
    second, latest = hours[1], hours[-1]
    assert latest.answer_bytes < (1 + SPREAD) * second.answer_bytes
    for model, held in second.memory_mb.items():
        if model == "tritonserver":  # the heaps of its threads fill for some hours
            held = hours[max(1, HOURS // 4)].memory_mb[model]
        assert latest.memory_mb[model] < (1 + SPREAD) * held + NOISE_MB, model
    # Busy neighbours make an hour dearer, and none cheaper. What grows makes all of them dearer.
    half = max(1, (HOURS - 1) // 2)
    early, late = hours[1 : 1 + half], hours[-half:]
    assert min(item.cpu_s for item in late) < (1 + SPREAD) * min(item.cpu_s for item in early)


async def speak(url: str, waveform: np.ndarray, streams: int, memory: Callable[[], float]) -> float:
    """Open streams at once, and end them when all have been heard for three steps.

    Returns:
        What `memory` returned before they ended.
    """
    async with AsyncClient(url) as client:
        opened = [client.live(mode="streaming", timeout_s=300) for _ in range(streams)]
        for start in range(0, 3 * STEP, STEP):
            chunk = waveform[start : start + STEP]
            await asyncio.gather(*(stream.send(chunk) for stream in opened))
        held = memory()
        await asyncio.gather(*(stream.finish() for stream in opened))
    return held


async def talk(stream: AsyncLiveStream, chunk: np.ndarray) -> None:
    """Send a chunk every second, so that no model is idle."""
    while True:
        await stream.send(chunk)
        await asyncio.sleep(1)


def test_what_a_burst_of_streams_took_is_given_back_while_another_goes_on(default, waveform):
    url = f"grpc://{default.grpc_url}"

    def memory_mb() -> float:
        return tree_memory(process_tree(default.pid)).total_mb

    async def burst() -> None:
        await speak(url, waveform, WARM_STREAMS, memory_mb)
        async with AsyncClient(url) as client, client.live(mode="streaming") as stream:
            talking = asyncio.create_task(talk(stream, waveform[:STEP]))
            before = memory_mb()
            during = await speak(url, waveform, STREAMS, memory_mb)
            assert during > before + STREAMS * STREAM_MB
            print(f"{STREAMS} streams: {before:.0f} MB before, {during:.0f} MB with them")
            async with asyncio.timeout(120):
                while memory_mb() > 1.2 * before:
                    await asyncio.sleep(1)
            print(f"{memory_mb():.0f} MB after")
            talking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await talking

    asyncio.run(burst())
