"""The map from Kaldi's filter banks to the features that the CTC encoder reads."""

from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import nn

from conch.component.arrays import FloatArray
from conch.component.features import FRAME_SHIFT
from conch.component.kaldi_fbank import KaldiFbank
from conch.component.waveform import SAMPLE_RATE
from lab.training.ctc.data import features_of
from lab.training.frozen.features import fitted_map

NUM_BINS = 80
TAIL_S = 0.4
"""Silence after each utterance, so that the model learns to end a text."""


def with_tail(waveform: FloatArray) -> FloatArray:
    """Return a waveform and silence after it, together a whole number of frames."""
    length = len(waveform) + int(TAIL_S * SAMPLE_RATE)
    return np.pad(waveform, (0, length - length % FRAME_SHIFT - len(waveform)))


def with_previous(fbank: torch.Tensor, previous: torch.Tensor) -> torch.Tensor:
    """Return each frame of `[B, F, 80]` after the one before it: `[B, F, 160]`.

    Args:
        fbank: frames.
        previous: `[B, 1, 80]`, what came before them.
    """
    return torch.cat([torch.cat([previous, fbank[:, :-1]], 1), fbank], 2)


def icefall_fbank(waveform: FloatArray) -> FloatArray:
    """Return filter banks, float32 `[F, 80]`, as icefall's models take them."""
    return KaldiFbank(NUM_BINS).whole(waveform)


def fitted_front(
    waveforms: Iterable[FloatArray], fbank_of: Callable[[FloatArray], FloatArray] = icefall_fbank
) -> nn.Linear:
    """Return the linear map of two filter bank frames to one log-mel frame, by least squares.

    Whisper's frame t ends with sample 160 (t + 1), where Kaldi's frames t - 1 and t lie around it.
    """
    return fitted_map(_pair(with_tail(waveform), fbank_of) for waveform in waveforms)


def _pair(
    padded: FloatArray, fbank_of: Callable[[FloatArray], FloatArray]
) -> tuple[FloatArray, FloatArray]:
    fbank = torch.from_numpy(fbank_of(padded))[None]
    rows: FloatArray = with_previous(fbank, fbank[:, :1])[0].numpy()
    return rows, features_of(padded, NUM_BINS)[: len(rows)]
