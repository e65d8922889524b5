"""The yardstick of orchestration: the same road over the same components, without Triton.

`measure` starts `python -m conch.bench.in_process` (see `conch.bench.child`): one Python process
that holds the components' objects, configured by the same config.pbtxt files, and the Recognizer
that `speech` runs. A call goes to the component's queue, where one thread takes what waits, up to
`max_batch_size` rows and as long as `max_queue_delay_microseconds`, as Triton's dynamic batcher
does. So what is computed, and what is batched, is the same; what is missing is Triton, the client,
the protocol, the processes and every copy between them. `batched=False` gives every row a call of
its own: still one thread a component, which takes one row after the other.
"""

import asyncio
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from conch.bench import child
from conch.bench.load import Load, Offer, Outcome, closed_loop, offer
from conch.bench.memory import MB
from conch.bench.recordings import decode
from conch.bench.repositories import model_args, read_config
from conch.component import Array, Component, Outputs, Row
from conch.errors import BenchError, ComponentError, TranscriptionError
from conch.orchestrator import OrchestratorConfig, Recognizer, SpeechRequest, Tensor
from conch.orchestrator.calls import Parameter, StreamPlace
from conch.parameters import read_parameters
from conch.segmentation import SAMPLE_RATE

NAME = "in process"

WARMUP_CLIENTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What the child is asked to do."""

    paths: tuple[str, ...]
    """Audio files, decoded before the clock starts."""
    models: tuple[str, ...]
    """Component models of the road."""
    options: Mapping[str, Any]
    """Of the requests."""
    offers: Sequence[Mapping[str, Any]]
    """Fields of `Offer`, one load after the other."""
    batched: bool = True
    warmup: int = 0
    """Requests before the first load."""


@dataclass(frozen=True, slots=True)
class InProcessRun:
    """What came of one load."""

    load: Load[str]
    cpu_s: float
    stages: Mapping[str, Mapping[str, float]]
    """By component: calls, queue_ms and compute_ms of a request, as `conch.bench.served` has it."""
    bytes_by_call: Mapping[str, float]
    """By component: bytes of the tensors that go in and come out, of a request."""


class HostTensor:
    """An output that is on the host already."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def numpy(self) -> Array:
        """See `conch.orchestrator.Tensor.numpy`."""
        return self._array


@dataclass(frozen=True, slots=True)
class _Waiting:
    row: Row
    since: float
    answer: "Future[Outputs]"


class BatchingQueue:
    """One component and the thread that runs it; rows that wait together share a call."""

    def __init__(self, component: Component, max_batch_size: int, max_delay_s: float) -> None:
        """Start the thread.

        Args:
            component: what answers.
            max_batch_size: rows of one call at most.
            max_delay_s: how long a row may wait for others while the component is free.
        """
        self._component = component
        self._max_batch_size = max_batch_size
        self._max_delay_s = max_delay_s
        self._waiting: queue.SimpleQueue[_Waiting] = queue.SimpleQueue()
        self.calls, self.queue_s, self.compute_s = 0, 0.0, 0.0
        threading.Thread(target=self._run, daemon=True).start()

    def submit(self, row: Row) -> "Future[Outputs]":
        """Return what will be the row's outputs, or its error."""
        answer: Future[Outputs] = Future()
        self._waiting.put(_Waiting(row, time.perf_counter(), answer))
        return answer

    def _run(self) -> None:
        while True:
            batch = [self._waiting.get()]
            until = batch[0].since + self._max_delay_s
            while len(batch) < self._max_batch_size:
                try:
                    batch.append(self._waiting.get(timeout=max(0.0, until - time.perf_counter())))
                except queue.Empty:
                    break
            self._answer(batch)

    def _answer(self, batch: list[_Waiting]) -> None:
        started = time.perf_counter()
        answers: Sequence[Outputs | Exception]
        try:
            answers = self._component([item.row for item in batch])
        except Exception as error:
            answers = [error] * len(batch)
        ended = time.perf_counter()
        for item, answer in zip(batch, answers, strict=True):
            # Of a batch every row has waited for all of it, as in Triton's statistics.
            self.calls += 1
            self.queue_s += started - item.since
            self.compute_s += ended - started
            if isinstance(answer, Exception):
                item.answer.set_exception(answer)
            else:
                item.answer.set_result(answer)


class InProcessComponents:
    """Component objects, called by the orchestrator as the models of a server are."""

    def __init__(self, queues: Mapping[str, BatchingQueue]) -> None:
        self._queues = queues
        self.bytes: dict[str, int] = defaultdict(int)

    async def call(
        self,
        model: str,
        inputs: Mapping[str, Array | Tensor],
        wanted: Sequence[str],
        parameters: Mapping[str, Parameter],
        timeout_s: float | None,
        place: StreamPlace | None,
    ) -> Mapping[str, Tensor]:
        """See `conch.orchestrator.Components.call`; without deadlines, streams and cancellation."""
        arrays = {
            name: value if isinstance(value, np.ndarray) else value.numpy()
            for name, value in inputs.items()
        }
        answer = self._queues[model].submit(Row(arrays, parameters))
        try:
            outputs = await asyncio.wrap_future(answer)
        except TranscriptionError as error:
            raise ComponentError(f"{model}: {error}") from error
        found = {name: outputs[name] for name in wanted}
        self.bytes[model] += sum(map(tensor_bytes, (*arrays.values(), *found.values())))
        return {name: HostTensor(array) for name, array in found.items()}


def tensor_bytes(array: Array) -> int:
    """Return the size of a tensor as Triton carries it: of a text four bytes more than its own."""
    if array.dtype == np.object_:
        return sum(len(item) + 4 for item in array.ravel())
    return array.nbytes


def load_components(models: Sequence[str], *, batched: bool = True) -> dict[str, BatchingQueue]:
    """Load component models as their config.pbtxt files say, each with its queue.

    Raises:
        ConfigError: one cannot be loaded.
        KeyError: a model is not one of an offline road.
    """
    queues = {}
    for model in models:
        config = read_config(model)
        component, parameters = _classes(model)
        batching = config.dynamic_batching
        queues[model] = BatchingQueue(
            component(read_parameters(parameters, model_args(config))),
            config.max_batch_size if batched else 1,
            batching.max_queue_delay_microseconds / 1e6 if batched else 0.0,
        )
    return queues


def _classes(model: str) -> tuple[Callable[[Any], Component], type]:
    # Each imports a runtime of its own, and a road does not need all of them.
    if model == "vad":
        from conch.acoustic.silero import SileroConfig, SileroVad

        return SileroVad, SileroConfig
    if model == "attention_encoder":
        from conch.acoustic.whisper_encoder import WhisperEncoder, WhisperEncoderConfig

        return WhisperEncoder, WhisperEncoderConfig
    if model == "attention_decoder":
        from conch.acoustic.whisper_decoder import WhisperDecoder, WhisperDecoderConfig

        return WhisperDecoder, WhisperDecoderConfig
    if model == "ctc_encoder":
        from conch.acoustic.ctc_encoder import CtcEncoder, CtcEncoderConfig

        return CtcEncoder, CtcEncoderConfig
    if model == "ctc_decoder":
        from conch.decoding.ctc_decoder import CtcDecoder, CtcDecoderConfig

        return CtcDecoder, CtcDecoderConfig
    raise KeyError(model)


def measure(
    job: Job, on_answer: Callable[[], None] = lambda: None
) -> tuple[list[InProcessRun], float]:
    """Run the job in a process of its own; `on_answer` is called at each answer.

    Returns:
        what came of each load, and the peak memory in MB, loading included, waveforms not.

    Raises:
        BenchError: the process failed; its own message is on standard error.
    """
    runs: list[InProcessRun] = []
    outcomes: list[Outcome[str]] = []
    waveforms_mb = 0.0
    with child.running("conch.bench.in_process", asdict(job)) as (process, messages, memory):
        for message in messages:
            if "index" in message:
                outcomes.append(Outcome(**message))
                on_answer()
            elif "wall_s" in message:
                ordered = tuple(sorted(outcomes, key=lambda outcome: outcome.index))
                load = Load(ordered, message.pop("wall_s"))
                runs.append(InProcessRun(load=load, **message))
                outcomes = []
            else:
                waveforms_mb = message["waveforms_mb"]
        peak_mb = memory.peak().total_mb
    if len(runs) != len(job.offers):
        raise BenchError(f"the {NAME} baseline ended early, with status {process.returncode}")
    return runs, round(peak_mb - waveforms_mb, 1)


def main() -> None:
    """Be the child."""
    asyncio.run(_measured(Job(**child.job())))


async def _measured(job: Job) -> None:
    queues = load_components(job.models, batched=job.batched)
    waveforms = [decode(Path(path)).resampled(SAMPLE_RATE) for path in job.paths]
    child.say(waveforms_mb=sum(waveform.nbytes for waveform in waveforms) / MB)
    components = InProcessComponents(queues)
    recognizer = Recognizer(OrchestratorConfig(), components)

    async def send(index: int) -> str:
        waveform = waveforms[index % len(waveforms)]
        request = SpeechRequest(wav=waveform[np.newaxis], parameters=job.options)
        return (await recognizer.recognize(request, components))[0].text

    await closed_loop(send, job.warmup, WARMUP_CLIENTS)
    for fields in job.offers:
        offered = Offer(**fields)
        for item in queues.values():
            item.calls, item.queue_s, item.compute_s = 0, 0.0, 0.0
        components.bytes.clear()
        cpu_before_s = time.process_time()
        requests = offered.requests(len(waveforms))
        load = await offer(send, requests, offered, lambda outcome: child.say(**asdict(outcome)))
        cpu_s = time.process_time() - cpu_before_s
        child.say(
            wall_s=load.wall_s,
            cpu_s=cpu_s,
            stages={
                name: {
                    "calls": item.calls / requests,
                    "queue_ms": 1000 * item.queue_s / requests,
                    "compute_ms": 1000 * item.compute_s / requests,
                }
                for name, item in queues.items()
            },
            bytes_by_call={name: size / requests for name, size in components.bytes.items()},
        )


if __name__ == "__main__":
    main()
