"""The audio of a live stream: chunks of any length, cut anew into steps of one length."""

import numpy as np
import soxr

from conch.audio.blocks import check_rate, peak
from conch.component import Array
from conch.component.waveform import SAMPLE_RATE


class LiveAudio:
    """The chunks of one stream, cut anew into steps of 16 kHz mono, all of one length."""

    def __init__(self, sample_rate: int, step_samples: int) -> None:
        """Start an empty stream.

        Args:
            sample_rate: Hz, of the chunks.
            step_samples: of a step, at 16 kHz.

        Raises:
            AudioError: a sample rate that no recording has.
        """
        check_rate(sample_rate, "SAMPLE_RATE")
        self.sample_rate = sample_rate
        self._step = step_samples
        self._held = np.zeros(0, np.float32)
        self._resampler = None
        if sample_rate != SAMPLE_RATE:
            self._resampler = soxr.ResampleStream(sample_rate, SAMPLE_RATE, 1, dtype="float32")

    def steps(self, chunk: Array, *, ends: bool) -> list[tuple[Array, bool]]:
        """Return the steps that are complete with a chunk, each with whether it is the last.

        The last one of a stream may be shorter, or empty where nothing else could be the last.

        Args:
            chunk: FP32 [samples] in [-1, 1].
            ends: whether it is the stream's last.

        Raises:
            AudioError: samples that are not finite or not in [-1, 1]; the stream is as before.
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
