"""Features at a low frame rate, as FunASR's models take them: joined filter banks, normalised."""

import numpy as np

from conch.component.arrays import FloatArray
from conch.component.kaldi_fbank import KaldiFbank, default_options
from conch.families.funasr.folder import FrontEnd

_FULL_SCALE = 32768
"""Sample of the value 1 in these models."""


def features_of(front_end: FrontEnd, waveform: FloatArray) -> FloatArray:
    """Return float32 `[ceil(frames / shift), window * num_mels]` at 16 kHz; none below 25 ms."""
    frames = fbank_of(front_end).whole(waveform)
    return normalised(front_end, joined(frames, front_end.window, front_end.shift))


def fbank_of(front_end: FrontEnd) -> KaldiFbank:
    """Return the frames of a new stream of samples in [-1, 1]."""
    options = default_options(front_end.num_mels)
    options.frame_opts.window_type = "hamming"
    return KaldiFbank(front_end.num_mels, options, _FULL_SCALE)


def normalised(front_end: FrontEnd, frames: FloatArray) -> FloatArray:
    """Return joined frames, float32 `[frames, window * num_mels]`, as the model takes them."""
    settings = front_end.neg_mean, front_end.inv_stddev
    mean, scale = (np.array(item, np.float32) for item in settings)
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
