"""A network that takes features at a low frame rate: joined filter banks, normalised."""

from collections.abc import Sequence

import numpy as np

from conch.component import Array, FloatArray
from conch.component.kaldi_fbank import KaldiFbank, default_options
from conch.component.onnx import open_network
from conch.families.funasr.folder import Folder, FunasrFolder, LowRateFeatures, Reader
from conch.families.search.graphs import TYPES, NamesFolder, folder_of

_FULL_SCALE = 32768
"""Sample of the value 1 in these models."""


def features_of(front_end: LowRateFeatures, waveform: FloatArray) -> FloatArray:
    """Return float32 `[ceil(frames / shift), window * num_mels]` at 16 kHz; none below 25 ms."""
    frames = fbank_of(front_end).whole(waveform)
    return normalised(front_end, joined(frames, front_end.window, front_end.shift))


def fbank_of(front_end: LowRateFeatures) -> KaldiFbank:
    """Return the frames of a new stream of samples in [-1, 1]."""
    options = default_options(front_end.num_mels)
    options.frame_opts.window_type = "hamming"
    return KaldiFbank(front_end.num_mels, options, _FULL_SCALE)


def normalised(front_end: LowRateFeatures, frames: FloatArray) -> FloatArray:
    """Return joined frames, float32 `[frames, window * num_mels]`, as the model takes them."""
    settings = front_end.neg_mean, front_end.inv_stddev
    mean, scale = (np.array(item, np.float32) for item in settings)
    return np.asarray((frames + mean) * scale)


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
    rows = np.clip(starts + np.arange(window), 0, count - 1)
    return np.asarray(frames[rows].reshape(len(starts), window * size))


def opened_folder(config: NamesFolder, flag: str, read: Reader[Folder]) -> Folder:
    return folder_of(config, flag, f"holds no {flag}", read)


class LowRateNetwork:
    """Runs one segment at a time: a padded row would be another text where two units are close."""

    def __init__(self, model: FunasrFolder, threads: int) -> None:
        self._front_end = model.front_end
        self._inputs = model.header.inputs
        self._session = open_network("a network of FunASR", model.network, threads)

    def run(self, waveform: FloatArray, *more: int | FloatArray) -> Sequence[Array]:
        """Return the outputs for a waveform, float32 `[samples]` at 16 kHz in [-1, 1].

        There are none for less than a frame. `more` are the inputs behind the number of frames.
        """
        features = features_of(self._front_end, waveform)
        if not len(features):
            return ()
        x, *others = self._inputs
        feed: dict[str, Array] = {x.name: features[None]}
        for item, value in zip(others, (len(features), *more), strict=True):
            feed[item.name] = np.array([value], TYPES.get(item.element_type, np.float32))
        outputs: Sequence[Array] = self._session.run(None, feed)
        return outputs
