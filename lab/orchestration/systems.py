"""The systems to compare: ways to run one path over the same weights, each measured alone.

A system is started, warmed up, put under every load and stopped before the next one starts, so that
none takes cores or memory from another.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from conch.bench.load import LoadResult, Offer, Outcome, closed_loop, offer
from conch.bench.memory import Memory, MemorySampler, cpu_by_process, cpu_since
from conch.bench.servers import triton_version
from conch.client import AsyncClient
from conch.component import SAMPLE_RATE
from conch.launcher import ServerConfig, TritonServer
from lab.model_repository import repository_of
from lab.orchestration import in_process
from lab.orchestration.in_process import SystemRun
from lab.orchestration.plain_client import PlainClient
from lab.served import model_work, stages_since
from lab.settings import Setting
from lab.turns import requests_of

Sender = Callable[[int], Awaitable[str]]

CONCH = "conch"
CONCH_NO_VAD = "conch, no VAD"
BLOCKING = "blocking"
ENSEMBLE = "ensemble, no VAD"

WARMUP_CLIENTS = 4
CLIENT = "client"
"""Name of the benchmark's own thread in CPU by process."""

TENSORS = {
    "speech_blocking": ("WAV", "TRANSCRIPTS"),
    "attention_ensemble": ("waveform", "hypotheses"),
}
"""Input and output of the models that are not `speech`."""


def blocking(instances: int) -> str:
    return f"{BLOCKING} x{instances}"


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    name: str
    runtime: Literal["served", "in process"]
    models: tuple[str, ...]
    """Models to serve or load; for a server, the entry model comes first."""
    settings: tuple[Setting, ...] = ()
    """Settings of a server's models that replace those of their config.pbtxt files."""
    options: Mapping[str, Any] = field(default_factory=dict)
    has_paced: bool = False
    """Whether it also runs under paced loads."""

    def takes(self, offered: Offer) -> bool:
        return offered.rate is None or self.has_paced


@dataclass(frozen=True, slots=True)
class Clip:
    path: Path
    waveform: NDArray[np.float32]
    """Mono, 16 kHz."""

    @property
    def duration_s(self) -> float:
        return len(self.waveform) / SAMPLE_RATE


@dataclass(frozen=True, slots=True)
class Measured:
    runs: list[SystemRun]
    memory: Memory
    triton_version: str | None = None


def measure(
    system: System,
    clips: Sequence[Clip],
    offers: Sequence[Offer],
    warmup: int,
    on_answer: Callable[[], object],
) -> Measured:
    taken = [offered for offered in offers if system.takes(offered)]
    if system.runtime == "served":
        return _served(system, clips, taken, warmup, on_answer)
    job = in_process.Job(
        paths=tuple(str(clip.path) for clip in clips),
        models=system.models,
        options=system.options,
        offers=taken,
        warmup=warmup,
    )
    runs, memory_mb = in_process.measure(job, on_answer)
    return Measured(runs, Memory(memory_mb, {system.runtime: memory_mb}))


def _served(
    system: System,
    clips: Sequence[Clip],
    offers: Sequence[Offer],
    warmup: int,
    on_answer: Callable[[], object],
) -> Measured:
    runs = []
    # Only the server descends from this process, so the peak includes loading.
    with (
        repository_of(system.models, system.settings) as repository,
        MemorySampler(os.getpid(), with_root=False) as memory,
        TritonServer(
            ServerConfig(
                model_repositories=(repository,),
                # The systems to compare with call the components too.
                open_components=True,
                log_level="warning",
            )
        ) as server,
    ):
        asyncio.run(_warm_up(server.http_url, system, clips, warmup))
        for offered in offers:
            runs.append(_served_run(server.http_url, system, clips, offered, on_answer))
        return Measured(runs, memory.peak(), triton_version(server.http_url))


def _served_run(
    url: str,
    system: System,
    clips: Sequence[Clip],
    offered: Offer,
    on_answer: Callable[[], object],
) -> SystemRun:
    requests = requests_of(offered, len(clips))
    work = model_work(url, system.models[1:])
    # CPU of this thread alone, which is the client: another one samples memory.
    cpu_s, own_s = cpu_by_process(os.getpid()), time.thread_time()

    def show(outcome: Outcome[str]) -> None:
        on_answer()

    async def measured() -> LoadResult[str]:
        async with _sender(url, system, clips, offered.connections) as send:
            return await offer(send, requests, offered, show)

    load = asyncio.run(measured())
    used = {**cpu_since(os.getpid(), cpu_s), CLIENT: round(time.thread_time() - own_s, 3)}
    stages = stages_since(work, model_work(url, system.models[1:]), requests)
    return SystemRun(offered, load, used, stages)


async def _warm_up(url: str, system: System, clips: Sequence[Clip], requests: int) -> None:
    async with _sender(url, system, clips, WARMUP_CLIENTS) as send:
        await closed_loop(send, requests, WARMUP_CLIENTS)


@asynccontextmanager
async def _sender(
    url: str, system: System, clips: Sequence[Clip], connections: int
) -> AsyncIterator[Sender]:
    entry = system.models[0]
    if entry == "speech":
        async with AsyncClient(url, connections=connections) as speech:

            async def transcribe(index: int) -> str:
                clip = clips[index % len(clips)]
                return (await speech.transcribe(clip.waveform, **system.options)).text

            yield transcribe
        return
    sent, wanted = TENSORS[entry]
    async with PlainClient(url, connections) as plain:

        async def infer(index: int) -> str:
            waveform = clips[index % len(clips)].waveform[np.newaxis]
            output = await plain.infer(entry, (sent, waveform), wanted)
            return str(output[0, 0].decode())

        yield infer
