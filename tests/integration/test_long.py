"""An hour in one request: in order, on its clock, in memory that does not grow with it."""

import threading
from contextlib import contextmanager

import numpy as np
import pytest
from anonymous import anonymous_mb
from recordings import wer

from conch.client import Client
from conch.processes import model_processes

pytestmark = [pytest.mark.server, pytest.mark.nightly, pytest.mark.timeout(1200)]

RATE = 16_000


@contextmanager
def sampled_memory(process: int):
    samples: list[float] = []
    done = threading.Event()

    def sample():
        while not done.wait(0.5):
            samples.append(anonymous_mb(process))

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield samples
    finally:
        done.set()
        sampler.join()


def test_an_hour_of_audio_in_one_request(server, recordings):
    (orchestrator,) = [
        process for process, model in model_processes(server.pid).items() if model == "speech"
    ]
    pause = np.zeros(RATE, np.float32)
    once = np.concatenate([part for item in recordings for part in (pause, item.waveform())])
    repeats = -(-3600 * RATE // len(once))
    reference = " ".join(item.text for item in recordings)

    with Client(f"grpc://{server.grpc_url}") as client, sampled_memory(orchestrator) as samples:
        transcript = client.transcribe(np.tile(once, repeats))

    assert transcript.duration >= 3600
    bounds = [edge for segment in transcript.segments for edge in (segment.start, segment.end)]
    assert bounds == sorted(bounds)
    assert bounds[-1] <= transcript.duration
    assert wer(" ".join([reference] * repeats), transcript.text) < 0.08
    # The request's samples are there from the start. Half an hour of what was already done
    # would be 115 MB more.
    middle = len(samples) // 2
    assert max(samples[middle:]) - max(samples[:middle]) < 50, [round(item) for item in samples]
