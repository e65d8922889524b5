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
    squares, products = np.zeros((161, 161)), np.zeros((161, NUM_BINS))
    for waveform in waveforms:
        padded = with_tail(waveform)
        fbank = fbank_of(padded)
        target = features_of(padded, NUM_BINS)[: len(fbank)]
        rows = np.concatenate([fbank[np.maximum(np.arange(len(fbank)) - 1, 0)], fbank], 1)
        rows = np.pad(rows, ((0, 0), (0, 1)), constant_values=1.0).astype(np.float64)
        squares += rows.T @ rows
        products += rows.T @ target
    solution = np.linalg.solve(squares + 1e-3 * np.eye(161), products)
    front = nn.Linear(160, NUM_BINS)
    with torch.no_grad():
        front.weight.copy_(torch.from_numpy(solution[:160].T))
        front.bias.copy_(torch.from_numpy(solution[160]))
    return front
