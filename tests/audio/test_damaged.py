"""Damaged files: each gives samples within limits, or the error that its sender is told."""

import asyncio
import random
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from fuzzing import check_few, check_many

from conch.audio.recording import file_recording
from conch.gateway.live_audio import LiveFrames
from conch.wire.errors import AudioError
from lab.chaos.doors.audio_files import Damage, damages

MAX_AUDIO_S = 60.0
RATE = 16_000
EXAMPLES, NIGHTLY_EXAMPLES = 60, 2_000
FRAMES = 6
"""Most frames in which a live client sends a file."""

pytestmark = pytest.mark.timeout(1800)


def read_whole(file: Damage) -> None:
    recording = file_recording(file.data(), MAX_AUDIO_S)
    for blocks in recording.channels.values():
        for block in blocks:
            assert block.dtype == np.float32 and np.isfinite(block).all()
    assert 0 <= recording.duration <= MAX_AUDIO_S
    assert all(recording.warnings)


def read_live(file: Damage) -> None:
    data, places = file.data(), random.Random(file.number)
    cuts = [places.randrange(len(data) + 1) for _ in range(FRAMES - 1)]
    frames = [data[start:end] for start, end in pairwise([0, *sorted(cuts), len(data)])]

    async def read() -> int:
        heard = 0
        async with LiveFrames(places.choice(["auto", "container"]), RATE) as decoder:
            for frame in [*frames, b""]:
                async for samples in decoder.decoded(frame, ends=not frame):
                    assert samples.ndim == 1 and np.isfinite(samples).all()
                    heard += len(samples)
        return heard

    # No file of the test is longer than two seconds; raw bytes at 16 kHz are shorter.
    assert asyncio.run(read()) <= MAX_AUDIO_S * RATE


READERS = {"file": read_whole, "live": read_live}


def checked(reader: str) -> Callable[[Damage], None]:
    """Return a check of what one reader makes of a file."""

    def check(file: Damage) -> None:
        try:
            READERS[reader](file)
        except AudioError as error:
            assert 0 < len(str(error).encode()) < 2_000

    return check


@pytest.mark.parametrize("reader", READERS)
def test_a_damaged_file_gives_samples_or_an_error(reader: str) -> None:
    check_few(damages(), checked(reader), EXAMPLES)


@pytest.mark.nightly
@pytest.mark.parametrize("reader", READERS)
def test_a_damaged_file_gives_samples_or_an_error_whatever_is_drawn(reader: str) -> None:
    check_many(damages(), checked(reader), NIGHTLY_EXAMPLES)
