"""Features at a low frame rate, as FunASR's models take them: joined filter banks, normalised."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from conch.component.arrays import FloatArray
from conch.component.kaldi_fbank import KaldiFbank, icefall_options

_FULL_SCALE = 32768
"""Sample of the value 1 in these models."""


@dataclass(frozen=True, slots=True)
class LowFrameRate:
    """How a model takes its features."""

    num_mels: int
    window: int
    """Frames of 10 ms in one."""
    shift: int
    """Frames of 10 ms from one to the next."""
    neg_mean: Sequence[float]
    """What is added to each feature, `[window * num_mels]`."""
    inv_stddev: Sequence[float]
    """What each feature is multiplied by after that, `[window * num_mels]`."""

    def features(self, waveform: FloatArray) -> FloatArray:
        """Return the features of a waveform, float32 `[ceil(frames / shift), window * num_mels]`.

        Args:
            waveform: float32 `[samples]` in [-1, 1], 16 kHz. One shorter than 25 ms has no frame.
        """
        frames = self.stream().whole(waveform)
        return self.normalised(joined(frames, self.window, self.shift))

    def stream(self) -> KaldiFbank:
        """Return the frames of a new stream of samples in [-1, 1]."""
        options = icefall_options(self.num_mels)
        options.frame_opts.window_type = "hamming"
        options.frame_opts.snip_edges = True
        options.mel_opts.high_freq = 0.0
        return KaldiFbank(self.num_mels, options, _FULL_SCALE)

    def normalised(self, frames: FloatArray) -> FloatArray:
        """Return joined frames, float32 `[frames, window * num_mels]`, as the model takes them."""
        mean, scale = (np.array(item, np.float32) for item in (self.neg_mean, self.inv_stddev))
        found: FloatArray = (frames + mean) * scale
        return found


def joined(frames: FloatArray, window: int, shift: int) -> FloatArray:
    """Return every `shift`-th frame with its neighbours: a `window` of them, one after the other.

    In front of the first frame and behind the last one, these are repeated.

    >>> joined(np.array([[1.0], [2.0], [3.0], [4.0]]), window=3, shift=2).tolist()
    [[1.0, 1.0, 2.0], [2.0, 3.0, 4.0]]
    """
    count, size = frames.shape
    if not count:
        return np.zeros((0, window * size), np.float32)
    starts = np.arange(0, count, shift)[:, None] - (window - 1) // 2
    places = np.clip(starts + np.arange(window), 0, count - 1)
    found: FloatArray = frames[places].reshape(len(starts), window * size)
    return found
