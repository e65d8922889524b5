"""The queue that batches as Triton does, and the path over components of this process."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from plain_components import PlainComponents
from plain_recognizer import recognizer_on

from conch.bls.call import Call
from conch.component import Outputs, Row
from conch.recognition.request import RecognitionRequest
from conch.wire.errors import AudioError, ComponentError, MissingModelError
from lab.orchestration.component_queues import BatchingQueue, InProcessComponents


class Held:
    """Answers a row with itself; holds each batch until it is let go."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.started, self.go = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, rows: Sequence[Row]) -> list[Any]:
        self.batches.append(len(rows))
        self.started.release()
        assert self.go.acquire(timeout=30)
        return [row.inputs for row in rows]


def row(value: float) -> Row:
    return Row({"x": np.array([value], np.float32)})


def test_rows_that_wait_together_share_a_call_up_to_the_batch_size() -> None:
    held = Held()
    queue = BatchingQueue([held], max_batch_size=3, max_delay_s=0.0)
    first = queue.submit(row(0))
    assert held.started.acquire(timeout=30)
    others = [queue.submit(row(number)) for number in range(1, 6)]
    for _ in range(3):
        held.go.release()
    answers = [future.result(timeout=30)["x"].item() for future in (first, *others)]
    assert answers == [0, 1, 2, 3, 4, 5]
    assert held.batches == [1, 3, 2]
    assert queue.calls == 6
    assert queue.queue_s > 0 < queue.compute_s


def test_instances_answer_side_by_side() -> None:
    one, other = Held(), Held()
    queue = BatchingQueue([one, other], max_batch_size=1, max_delay_s=0.0)
    first, second = queue.submit(row(0)), queue.submit(row(1))
    # Both hold a row before either is let go: one that is free again could take the second as well.
    for held in (one, other):
        assert held.started.acquire(timeout=30)
    for held in (one, other):
        held.go.release()
    assert [future.result(timeout=30)["x"].item() for future in (first, second)] == [0, 1]
    assert one.batches == other.batches == [1]
    assert queue.calls == 2


def test_a_delay_waits_for_companions() -> None:
    held = Held()
    queue = BatchingQueue([held], max_batch_size=2, max_delay_s=30.0)
    held.go.release()
    answers = [queue.submit(row(number)) for number in range(2)]
    assert [future.result(timeout=30)["x"].item() for future in answers] == [0, 1]
    assert held.batches == [2]


def test_an_error_is_the_rows_own() -> None:
    def component(rows: Sequence[Row]) -> list[Outputs | AudioError]:
        return [AudioError("too long")]

    components = InProcessComponents({"vad": BatchingQueue([component], 1, 0.0)})
    with pytest.raises(ComponentError, match="vad: too long"):
        asyncio.run(components.call(Call("vad", {"waveform": np.zeros(1)}, ())))


def test_a_component_that_is_not_there_is_missing() -> None:
    call = InProcessComponents({}).call(Call("ctc_encoder", {}, ()))
    with pytest.raises(MissingModelError, match="ctc_encoder is not loaded") as error:
        asyncio.run(call)
    assert error.value.model == "ctc_encoder"


def test_a_component_that_raises_fails_its_batch() -> None:
    def component(rows: Sequence[Row]) -> list[Outputs]:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        BatchingQueue([component], 1, 0.0).submit(row(0)).result(timeout=30)


def test_the_path_is_that_of_speech() -> None:
    plain = PlainComponents()

    def queue_of(model: str) -> BatchingQueue:
        function = getattr(plain, model)
        return BatchingQueue(
            [lambda rows: [function(item.inputs, item.parameters) for item in rows]], 4, 0.0
        )

    models = ("vad", "attention_encoder", "attention_decoder")
    components = InProcessComponents({model: queue_of(model) for model in models})
    tone = np.full((1, 16_384), 0.25, np.float32)

    async def recognized() -> str:
        recognizer = recognizer_on(components)
        return (await recognizer.recognize(RecognitionRequest(wav=tone), components))[0].text

    assert asyncio.run(recognized()) == "spoken 0.25 0"
