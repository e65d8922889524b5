"""The map from Kaldi's filter banks to the features of the CTC model."""

from pathlib import Path

import torch

from conch.component.kaldi_fbank import KaldiFbank
from lab.training.ctc.data import features_of
from lab.waveforms import waveform_of

DATA = Path(__file__).parents[3] / "data"


def test_the_front_makes_log_mels_of_filter_banks():
    from lab.training.transducer.features import fitted_front, with_previous, with_tail

    heard, *others = [waveform_of(path) for path in sorted(DATA.glob("kokoro_*.ogg"))][:5]
    front = fitted_front(others)
    padded = with_tail(heard)
    fbank = torch.from_numpy(KaldiFbank(80).whole(padded))[None]
    expected = torch.from_numpy(features_of(padded, 80))
    with torch.no_grad():
        found = front(with_previous(fbank, fbank[:, :1]))[0].clamp(min=-0.75)
    off = (found - expected[: len(found)]).square().mean().sqrt()
    assert off < expected.std() / 4
