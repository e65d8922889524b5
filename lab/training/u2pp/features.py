"""The map from the filter banks that WeNet feeds to the features that the CTC encoder reads."""

from collections.abc import Iterable

import numpy as np
import torch
from torch import nn

from conch.component.arrays import FloatArray
from conch.component.kaldi_fbank import KaldiFbank, default_options
from lab.training.ctc.data import features_of
from lab.training.frozen.features import fitted_map

NUM_BINS = 80
TAPS = 4
"""Filter banks of a log-mel frame: an output frame of 40 ms hears 7 of them, as WeNet's do."""


def fbank_of(waveform: FloatArray) -> FloatArray:
    """Return filter banks as WeNet computes them, float32 `[F, 80]`, without dither."""
    return KaldiFbank(NUM_BINS, default_options(NUM_BINS), 32_768.0).whole(waveform)


def with_following(fbank: torch.Tensor) -> torch.Tensor:
    """Return each frame of `[B, F, 80]` before the three behind it: `[B, F - 3, 320]`."""
    count = fbank.shape[1] - TAPS + 1
    return torch.cat([fbank[:, tap : tap + count] for tap in range(TAPS)], 2)


def fitted_front(waveforms: Iterable[FloatArray]) -> nn.Linear:
    """Return the linear map of four filter banks to one log-mel frame, by least squares.

    The centres of Kaldi's frames m to m + 3 lie around that of Whisper's frame m + 3.
    """
    return fitted_map(_pair(waveform) for waveform in waveforms)


def _pair(waveform: FloatArray) -> tuple[FloatArray, FloatArray]:
    rows = with_following(torch.from_numpy(fbank_of(waveform))[None])[0].numpy()
    targets = features_of(waveform, NUM_BINS)[TAPS - 1 :]
    count = min(len(rows), len(targets))
    return rows[:count], np.asarray(targets[:count], np.float32)
