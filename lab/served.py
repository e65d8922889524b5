"""Ask a running server: recordings several at once, and Triton about its models and CPU."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conch.bench.load import Offer
from conch.bench.offline import send_all
from conch.bench.samples import Sample
from conch.bench.servers import inference_client
from conch.scoring.manifest import ManifestEntry
from conch.wire.errors import BenchError
from conch.wire.result import Transcript


def sample_of(waveform: NDArray[np.float32], sample_rate: int, text: str = "") -> Sample:
    """Return samples that are in no file as an utterance to send."""
    spoken = ManifestEntry(Path("made"), text)
    return Sample(spoken, waveform, sample_rate, len(waveform) / sample_rate)


def answers(
    url: str, samples: Sequence[Sample], options: Mapping[str, Any], at_once: int
) -> list[Transcript]:
    """Return the answers to recordings, or raise a BenchError if one has none."""
    offered = Offer(concurrency=at_once)
    load = asyncio.run(send_all(url, samples, offered=offered, options=options))
    if errors := [item.error for item in load.outcomes if item.error]:
        raise BenchError(errors[0])
    return [item.answer for item in load.outcomes if item.answer is not None]


def model_parameters(url: str, model: str) -> dict[str, str]:
    with inference_client(url) as (client, as_json):
        answer = client.get_model_config(model, **as_json)
        # gRPC wraps the answer of HTTP.
        config = answer.get("config", answer)
        return {name: value["string_value"] for name, value in config.get("parameters", {}).items()}


ORCHESTRATION = ("speech", "tritonserver")
"""The processes of a server that are no components."""


def share_of(cpu_s: Mapping[str, float], names: Collection[str]) -> float | None:
    """Return the fraction of CPU that some processes have used; None if none was used."""
    total = sum(cpu_s.values())
    used = sum(seconds for name, seconds in cpu_s.items() if name in names)
    return round(used / total, 4) if total else None


@dataclass(frozen=True, slots=True)
class ModelWork:
    """What a model has done since the server started, counted by requests."""

    requests: int = 0
    queue_s: float = 0.0
    """Sum over requests of the wait for an instance."""
    compute_s: float = 0.0
    """Sum over requests of their executions; each request of a batch counts all of it.

    For a Python backend that includes copies of tensors to and from shared memory, and
    the switch to its process.
    """


def model_work(url: str, models: Sequence[str]) -> dict[str, ModelWork]:
    """Return Triton's own statistics of models."""
    work = {}
    with inference_client(url) as (client, as_json):
        for model in models:
            (stats,) = client.get_inference_statistics(model, **as_json)["model_stats"]
            # gRPC leaves out zeros, and writes numbers as text.
            parts = stats.get("inference_stats", {})
            ns = {name: int(part.get("ns", 0)) for name, part in parts.items()}
            compute = sum(ns.get(f"compute_{part}", 0) for part in ("input", "infer", "output"))
            work[model] = ModelWork(
                int(parts.get("success", {}).get("count", 0)),
                ns.get("queue", 0) / 1e9,
                compute / 1e9,
            )
    return work


@dataclass(frozen=True, slots=True)
class ServedStage:
    """A component's part of a request, as Triton or a queue counts it; a mean."""

    calls: float
    queue_ms: float
    """Milliseconds of waiting for an instance."""
    compute_ms: float


def stages_since(
    before: Mapping[str, ModelWork], after: Mapping[str, ModelWork], requests: int
) -> dict[str, ServedStage]:
    """Return the mean of some requests by model."""
    return {
        model: ServedStage(
            (work.requests - before[model].requests) / requests,
            1000 * (work.queue_s - before[model].queue_s) / requests,
            1000 * (work.compute_s - before[model].compute_s) / requests,
        )
        for model, work in after.items()
    }
