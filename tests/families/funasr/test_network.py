"""Features at a low frame rate, held against a slow reference."""

import kaldi_native_fbank as knf
import numpy as np
import pytest

from conch.families.funasr.folder import LowRateFeatures
from conch.families.funasr.network import features_of, joined


def front_end(mean: float, scale: float) -> LowRateFeatures:
    means, scales = (mean,) * 560, (scale,) * 560
    return LowRateFeatures(num_mels=80, window=7, shift=6, neg_mean=means, inv_stddev=scales)


@pytest.mark.parametrize("count", [1, 2, 6, 7, 8, 13, 40])
def test_joined_frames_are_those_around_every_sixth(count):
    frames = np.arange(2 * count, dtype=np.float32).reshape(count, 2)
    padded = [frames[0]] * 3 + [*frames] + [frames[-1]] * 6
    expected = [np.concatenate(padded[at : at + 7]) for at in range(0, count, 6)]
    assert np.array_equal(joined(frames, 7, 6), np.stack(expected))


def test_features_are_kaldis_with_the_settings_of_funasr():
    waveform = np.random.default_rng(0).normal(0, 0.1, 9000).astype(np.float32)
    options = knf.FbankOptions()
    options.frame_opts.dither = 0
    options.frame_opts.window_type = "hamming"
    options.mel_opts.num_bins = 80
    whole = knf.OnlineFbank(options)
    whole.accept_waveform(16_000, (waveform * 32768).tolist())
    frames = np.stack([whole.get_frame(at) for at in range(whole.num_frames_ready)])
    found = features_of(front_end(-12.0, 0.25), waveform)
    assert found.shape == (-(-len(frames) // 6), 560)
    assert found == pytest.approx((joined(frames, 7, 6) - 12) / 4, abs=1e-5)


def test_audio_shorter_than_a_frame_has_none():
    assert features_of(front_end(0.0, 1.0), np.zeros(399, np.float32)).shape == (0, 560)
