"""The baseline of orchestration: the same path over the same components, without Triton.

One Python process (see `lab.child`) holds the components' objects, configured by the same
config.pbtxt files, each behind a queue that batches as Triton's dynamic batcher does (see
`lab.orchestration.component_queues`), and the Recognizer that `speech` runs. Computation and
batches are the same. Triton, the client, the protocol, the processes and the copies between them
are missing.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from conch.bench.load import LoadResult, Offer, Outcome, closed_loop, offer
from conch.bench.memory import MB
from conch.bls.config import own_components
from conch.bls.runtime import Runtime
from conch.recognition.config import RecognitionConfig
from conch.recognition.recognizer import Recognizer
from conch.recognition.request import RecognitionRequest
from conch.wire.errors import BenchError
from lab import child
from lab.orchestration.component_queues import InProcessComponents, load_components
from lab.served import ServedStage
from lab.turns import requests_of
from lab.waveforms import waveform_of

NAME = "in process"

WARMUP_CLIENTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    paths: tuple[str, ...]
    """Audio files, decoded before the clock starts."""
    models: tuple[str, ...]
    options: Mapping[str, Any]
    offers: Sequence[Offer]
    warmup: int = 0
    """Requests before the first load."""


@dataclass(frozen=True, slots=True)
class SystemRun:
    offered: Offer
    load: LoadResult[str]
    cpu_s: Mapping[str, float]
    """By process."""
    stages: Mapping[str, ServedStage]


def measure(
    job: Job, on_answer: Callable[[], object] = lambda: None
) -> tuple[list[SystemRun], float]:
    """Run the job in a separate process; `on_answer` is called at each answer.

    Return each load, and the peak memory in MB with loading, without waveforms.
    """
    runs: list[SystemRun] = []
    waveforms_mb = 0.0
    with child.running(_work, job) as (process, messages, memory):
        for message in messages:
            if isinstance(message, SystemRun):
                runs.append(message)
            elif isinstance(message, Outcome):
                on_answer()
            else:
                waveforms_mb = message
        peak_mb = memory.peak().total_mb
    if len(runs) != len(job.offers):
        raise BenchError(f"the {NAME} baseline ended early, with status {process.exitcode}")
    return runs, round(peak_mb - waveforms_mb, 1)


def _work(job: Job, say: child.Say) -> None:
    asyncio.run(_measured(job, say))


async def _measured(job: Job, say: child.Say) -> None:
    queues = load_components(job.models)
    waveforms = [waveform_of(Path(path)) for path in job.paths]
    say(sum(waveform.nbytes for waveform in waveforms) / MB)
    components = InProcessComponents(queues)
    config = RecognitionConfig()
    recognizer = Recognizer(config, Runtime(config, own_components(), components))

    async def send(index: int) -> str:
        waveform = waveforms[index % len(waveforms)]
        request = RecognitionRequest(wav=waveform[np.newaxis], parameters=job.options)
        return (await recognizer.recognize(request, components))[0].text

    await closed_loop(send, job.warmup, WARMUP_CLIENTS)
    for offered in job.offers:
        for item in queues.values():
            item.calls, item.queue_s, item.compute_s = 0, 0.0, 0.0
        cpu_before_s = time.process_time()
        requests = requests_of(offered, len(waveforms))
        load = await offer(send, requests, offered, say)
        stages = {
            name: ServedStage(
                item.calls / requests,
                1000 * item.queue_s / requests,
                1000 * item.compute_s / requests,
            )
            for name, item in queues.items()
        }
        cpu_s = {NAME: time.process_time() - cpu_before_s}
        say(SystemRun(offered, load, cpu_s, stages))
