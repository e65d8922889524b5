"""The path of most attention, against librosa's dynamic time warping."""

import librosa
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import median_filter

from conch.families.attention.word_times import warped


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 40))
def test_the_path_costs_as_little_as_that_of_librosa(seed, num_tokens, num_frames):
    attention = np.random.default_rng(seed).random((num_tokens, num_frames)).astype(np.float32)
    path = warped(attention)
    steps = np.diff(path, axis=0)
    assert path[0] == (0, 0)
    assert path[-1] == (num_tokens - 1, num_frames - 1)
    assert {tuple(step) for step in steps} <= {(0, 1), (1, 0), (1, 1)}
    spread = attention.std(axis=0) + 1e-9
    cost = -median_filter((attention - attention.mean(axis=0)) / spread, (1, 7)).astype(float)
    expected, _ = librosa.sequence.dtw(C=cost, step_sizes_sigma=np.array([[1, 1], [0, 1], [1, 0]]))
    assert sum(cost[place] for place in path) == pytest.approx(expected[-1, -1], abs=1e-6)
