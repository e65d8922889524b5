"""Audio as it is spoken."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Sample = TypeVar("Sample", np.int16, np.float32)


async def paced(
    waveform: NDArray[Sample], sample_rate: int, chunk_s: float, begun: float
) -> AsyncIterator[NDArray[Sample]]:
    """Yield each chunk when its last sample would have been spoken, by `time.perf_counter`."""
    size = round(chunk_s * sample_rate)
    for start in range(0, len(waveform), size):
        chunk = waveform[start : start + size]
        due = begun + (start + len(chunk)) / sample_rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        yield chunk
