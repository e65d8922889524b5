"""Cut live audio, chunks of any length, into steps of equal length."""

import numpy as np
import soxr

from conch.audio.limits import check_rate, peak
from conch.component import Array
from conch.component.waveform import SAMPLE_RATE


class LiveAudio:
    """Cuts the chunks of a live stream into steps of 16 kHz mono of equal length."""

    def __init__(self, sample_rate: int, step_samples: int) -> None:
        """Take Hz of chunks, and samples of steps at 16 kHz; raise an AudioError for a bad rate."""
        check_rate(sample_rate, "SAMPLE_RATE")
        self.sample_rate = sample_rate
        self._step = step_samples
        self._held = np.zeros(0, np.float32)
        self._resampler = None
        if sample_rate != SAMPLE_RATE:
            self._resampler = soxr.ResampleStream(sample_rate, SAMPLE_RATE, 1, dtype="float32")

    def steps(self, chunk: Array, *, ends: bool) -> list[tuple[Array, bool]]:
        """Add a chunk, FP32 [samples] in [-1, 1]; return complete steps, each with "is last".

        The last step of a stream may be shorter. It is empty if no samples are left for it. Raise
        an AudioError, and leave the chunk out, if a sample is not finite or far outside [-1, 1].
        """
        if len(chunk):
            peak(chunk, "WAV")
        if self._resampler is not None:
            chunk = self._resampler.resample_chunk(chunk, last=ends)
        held = np.concatenate([self._held, chunk])
        whole = len(held) // self._step
        cuts = [self._step * number for number in range(1, whole + 1)]
        *steps, rest = np.split(held, cuts)
        self._held = rest.copy()
        if ends and (len(rest) or not steps):
            steps.append(rest)
        return [(step, ends and number == len(steps)) for number, step in enumerate(steps, 1)]

    def incomplete(self, multiple: int) -> Array:
        """Return the samples of the incomplete step, cut to a multiple of a number."""
        return self._held[: len(self._held) // multiple * multiple]

    def drop(self, samples: int) -> None:
        """Remove this many samples of the incomplete step; the others become silence."""
        self._held = np.zeros(len(self._held) - samples, np.float32)
