"""Log-mel filter banks, held against Kaldi's own code."""

import numpy as np

from conch.component.kaldi_fbank import KaldiFbank, default_options, narrow_fbank


def test_narrow_filters_are_kaldis_where_kaldi_takes_them():
    waveform = np.random.default_rng(0).normal(0, 0.1, 8000).astype(np.float32)
    options = default_options(40)
    options.frame_opts.window_type, options.frame_opts.remove_dc_offset = "hanning", False
    options.mel_opts.low_freq, options.mel_opts.high_freq = 125.0, 7500.0
    expected = KaldiFbank(40, options).whole(waveform)
    found = narrow_fbank(waveform, 40, 125.0, 7500.0)
    assert found.shape == (48, 40)
    np.testing.assert_allclose(found, expected, atol=1e-3)
    # The first one of more is between two bins.
    more = narrow_fbank(waveform, 128, 125.0, 7500.0)
    assert np.flatnonzero(more.max(axis=0) < -15).tolist() == [0]
