"""Measure a BLS call: a component that does nothing, called directly and through BLS models.

The two models under lab/repositories/hops call `null` as often as a request says: `hop` the way
`speech` calls components (event loop, executor, response sender), `hop_blocking` by `exec` in
`execute`. What one more call adds is the difference of many calls and one, so that the client, the
protocol and the BLS model itself cancel out.
"""

import asyncio
import os
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from conch.bench.memory import cpu_by_process, cpu_since
from conch.component.waveform import SAMPLE_RATE
from conch.launcher import ServerConfig, TritonServer
from lab.model_repository import repository_of
from lab.orchestration.plain_client import PlainClient

MODELS = ("hop", "hop_blocking", "null")
PAYLOADS = {"1 sample": 1, "5 s of audio": 5 * SAMPLE_RATE}
"""FP32 samples that each call carries."""
MANY = 11
"""Calls of a long request; the other requests have one."""
REQUESTS = 40
"""Requests of each kind in one round."""
ROUNDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectCost:
    """The cost of a request to the component itself."""

    latency_ms: float
    cpu_ms: float
    """CPU of all of the server's processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HopCost:
    """The cost that a BLS model adds."""

    hop_latency_ms: float
    """Latency of a request with one call."""
    call_latency_ms: float
    """Latency that one more call adds."""
    call_cpu_ms: float
    """CPU that one more call adds in all of the server's processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCost:
    """The costs of a payload; the fields have the names of the models."""

    direct: DirectCost
    hop: HopCost
    hop_blocking: HopCost

    @property
    def by_model(self) -> Mapping[str, HopCost]:
        """The BLS models by name."""
        return {"hop": self.hop, "hop_blocking": self.hop_blocking}


def measure(requests: int = REQUESTS, rounds: int = ROUNDS) -> dict[str, CallCost]:
    """Start a server, measure, and return by payload the figures of `cost`.

    Raises:
        ServerError: the server cannot be started.
    """
    with (
        repository_of(MODELS) as repository,
        TritonServer(ServerConfig(model_repositories=(repository,), log_level="warning")) as server,
    ):
        return {
            title: asyncio.run(_measured(server.http_url, samples, requests, rounds))
            for title, samples in PAYLOADS.items()
        }


async def _measured(url: str, samples: int, requests: int, rounds: int) -> CallCost:
    kinds = [("null", 0), *((model, calls) for model in MODELS[:2] for calls in (1, MANY))]
    waveform = np.zeros((1, samples), np.float32)
    latencies_ms: dict[tuple[str, int], list[float]] = {kind: [] for kind in kinds}
    cpu_ms: dict[tuple[str, int], list[float]] = {kind: [] for kind in kinds}
    async with PlainClient(url, connections=1) as client:

        async def request(model: str, calls: int) -> float:
            started = time.perf_counter()
            await client.infer(model, ("waveform", waveform), "nothing", {"calls": calls})
            return 1000 * (time.perf_counter() - started)

        for kind in kinds:  # the first of each is not counted
            await request(*kind)
        for _ in range(rounds):
            for kind in kinds:
                before = cpu_by_process(os.getpid())
                latencies_ms[kind] += [await request(*kind) for _ in range(requests)]
                used_s = sum(cpu_since(os.getpid(), before).values())
                cpu_ms[kind].append(1000 * used_s / requests)
    medians = {kind: statistics.median(values) for kind, values in latencies_ms.items()}
    # A process's CPU is known in ticks of 10 ms only: the mean of all rounds, not their median.
    means = {kind: statistics.fmean(values) for kind, values in cpu_ms.items()}
    return cost(medians, means)


def cost(
    latency_ms: Mapping[tuple[str, int], float], cpu_ms: Mapping[tuple[str, int], float]
) -> CallCost:
    """Return the cost of a direct request, and the costs that each BLS model and one call add.

    Args:
        latency_ms: of a request, by model and number of calls.
        cpu_ms: of all of the server's processes for a request, by the same.
    """
    direct = ("null", 0)
    costs = {
        model: HopCost(
            hop_latency_ms=round(latency_ms[model, 1], 3),
            call_latency_ms=_slope(latency_ms, model),
            call_cpu_ms=_slope(cpu_ms, model),
        )
        for model in MODELS[:2]
    }
    return CallCost(
        direct=DirectCost(latency_ms=round(latency_ms[direct], 3), cpu_ms=round(cpu_ms[direct], 3)),
        **costs,
    )


def _slope(values: Mapping[tuple[str, int], float], model: str) -> float:
    return round((values[model, MANY] - values[model, 1]) / (MANY - 1), 3)
