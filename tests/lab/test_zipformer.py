"""A transducer of full size, with random weights."""

from pathlib import Path

import numpy as np
import pytest

from conch.families.search.encoders import ExportedEncoder
from conch.families.transducer.folder import read_transducer
from conch.families.transducer.networks import opened_encoder
from lab import zipformer


@pytest.mark.nightly
def test_it_has_the_states_of_a_published_one_and_runs(tmp_path: Path) -> None:
    assert zipformer.write(tmp_path) == pytest.approx(66e6, rel=0.02)
    found = read_transducer(tmp_path)
    states = {state.name: state.shape for state in found.encoder.states}
    assert (len(states), found.encoder.chunk, found.encoder.shift) == (98, 45, 32)
    assert states["cached_key_7"] == (16, 1, 256)
    assert states["cached_nonlin_attn_4"] == (1, 1, 32, 288)
    assert states["cached_conv1_15"] == (1, 256, 15)
    graph = opened_encoder(found.encoder, threads=1)
    noise = np.random.default_rng(0).normal(0, 0.1, 16_000).astype(np.float32)
    (alone,), together = (ExportedEncoder(graph).encode([noise] * n) for n in (1, 3))
    assert alone.shape[1] == 512
    for item in together:
        np.testing.assert_allclose(item, alone, atol=1e-3)
