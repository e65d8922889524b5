"""Component models as objects of this process, each called through a queue that batches.

A queue does the work of Triton's dynamic batcher. Each instance has a thread that takes waiting
rows: up to `max_batch_size`, for up to `max_queue_delay_microseconds`.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from conch.bls.call import Call, TensorHandle
from conch.component import Array, ComponentModel, Outputs, Row
from conch.component.parameters import read_parameters
from conch.wire.errors import ComponentError, MissingModelError, TranscriptionError
from lab.model_repository import model_args, read_config

# Each imports another runtime, and a path does not need all of them.
_CLASSES: Mapping[str, tuple[str, str, str]] = {
    "vad": ("silero.vad", "SileroVad", "SileroConfig"),
    "attention_encoder": ("whisper.encoder", "WhisperEncoder", "WhisperEncoderConfig"),
    "attention_decoder": ("whisper.decoder", "WhisperDecoder", "WhisperDecoderConfig"),
}
"""Module, component and parameters of the models, within `conch.families`."""


class HostTensor:
    """An output that is on the host already."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def numpy(self) -> Array:
        return self._array


@dataclass(frozen=True, slots=True)
class _Waiting:
    row: Row
    since: float
    answer: "Future[Outputs]"


class BatchingQueue:
    """Instances of one component, a thread for each; rows that wait together share a call."""

    def __init__(
        self, instances: Sequence[ComponentModel], max_batch_size: int, max_delay_s: float
    ) -> None:
        """Start the threads; a row waits for others at most `max_delay_s` while one is free."""
        self._max_batch_size = max_batch_size
        self._max_delay_s = max_delay_s
        self._waiting: queue.SimpleQueue[_Waiting] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self.calls, self.queue_s, self.compute_s = 0, 0.0, 0.0
        for instance in instances:
            threading.Thread(target=self._run, args=(instance,), daemon=True).start()

    def submit(self, row: Row) -> "Future[Outputs]":
        answer: Future[Outputs] = Future()
        self._waiting.put(_Waiting(row, time.perf_counter(), answer))
        return answer

    def _run(self, instance: ComponentModel) -> None:
        while True:
            batch = [self._waiting.get()]
            until = batch[0].since + self._max_delay_s
            while len(batch) < self._max_batch_size:
                try:
                    batch.append(self._waiting.get(timeout=max(0.0, until - time.perf_counter())))
                except queue.Empty:
                    break
            self._answer(batch, instance)

    def _answer(self, batch: list[_Waiting], instance: ComponentModel) -> None:
        started = time.perf_counter()
        answers: Sequence[Outputs | Exception]
        try:
            answers = instance([item.row for item in batch])
        except Exception as error:
            answers = [error] * len(batch)
        ended = time.perf_counter()
        with self._lock:
            # Every row of a batch counts all of it, as in Triton's statistics.
            self.calls += len(batch)
            self.queue_s += sum(started - item.since for item in batch)
            self.compute_s += len(batch) * (ended - started)
        for item, answer in zip(batch, answers, strict=True):
            if isinstance(answer, Exception):
                item.answer.set_exception(answer)
            else:
                item.answer.set_result(answer)


class InProcessComponents:
    """Component objects, called by the orchestrator as the models of a server are.

    They have no deadlines, streams or cancellation.
    """

    def __init__(self, queues: Mapping[str, BatchingQueue]) -> None:
        self._queues = queues

    async def call(self, call: Call) -> Mapping[str, TensorHandle]:
        arrays = {
            name: value if isinstance(value, np.ndarray) else value.numpy()
            for name, value in call.inputs.items()
        }
        model = call.model
        if model not in self._queues:
            raise MissingModelError(f"{model} is not loaded in this process", model)
        answer = self._queues[model].submit(Row(arrays, call.parameters))
        try:
            outputs = await asyncio.wrap_future(answer)
        except TranscriptionError as error:
            raise ComponentError(f"{model}: {error}") from error
        return {name: HostTensor(outputs[name]) for name in call.outputs}

    def give_up(self, model: str) -> None:
        """See `conch.bls.call.Components.give_up`; no process dies here."""

    async def is_loaded(self, model: str) -> bool:
        return model in self._queues


def load_components(models: Sequence[str]) -> dict[str, BatchingQueue]:
    queues = {}
    for model in models:
        config = read_config(model)
        module, *names = _CLASSES[model]
        family = import_module(f"conch.families.{module}")
        component, config_type = (getattr(family, name) for name in names)
        parameters: Any = read_parameters(config_type, model_args(config))
        instances = sum(group.count for group in config.instance_group)
        batching = config.dynamic_batching
        queues[model] = BatchingQueue(
            [component(parameters) for _ in range(instances)],
            config.max_batch_size,
            batching.max_queue_delay_microseconds / 1e6,
        )
    return queues
