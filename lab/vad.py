"""The VAD of live streams, in this process."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from conch.component import VAD_STATE_SIZE
from conch.families.silero.vad import SileroConfig, SileroVad


def speech_probs(waveform: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the probability of speech in each frame."""
    probs, _ = _vad().speech_probs(waveform, np.zeros(VAD_STATE_SIZE, np.float32))
    return probs


@cache
def _vad() -> SileroVad:
    return SileroVad(SileroConfig())
