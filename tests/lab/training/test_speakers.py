"""The training of the embedding of voices for telephone calls."""

import numpy as np
import onnxruntime
import pytest
import torch
from speaker_weights import drawn_embedding

from conch.families.speakers.graphs import embedding
from lab.training.speakers.calls import called
from lab.training.speakers.network import Embedding
from lab.training.speakers.train import equal_error_rate


def test_the_network_is_that_of_onnx_runtime():
    weights = drawn_embedding()
    graph = embedding(weights).SerializeToString()
    features = np.random.default_rng(1).standard_normal((2, 148, 80)).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(graph).run(None, {"features": features})
    network = Embedding({name: torch.tensor(value) for name, value in weights.items()})
    found = network(torch.from_numpy(features))
    np.testing.assert_allclose(found.detach().numpy(), expected, atol=2e-4)
    assert all(value.requires_grad for value in network.tuned.values())
    assert "head.conv1.weight" in network.tuned and not [n for n in network.tuned if "running" in n]


@pytest.mark.parametrize("seed", range(4))
def test_a_call_has_the_length_of_the_speech_and_nothing_above_the_line(seed):
    waveform = np.random.default_rng(seed).standard_normal(32_000).astype(np.float32) * 0.1
    heard = called(waveform, np.random.default_rng(seed))
    assert abs(len(heard) - len(waveform)) <= 640  # a codec has whole frames
    power = np.abs(np.fft.rfft(heard)) ** 2
    above = np.fft.rfftfreq(len(heard), 1 / 16_000) > 4_300
    assert power[above].mean() < 1e-3 * power[~above].mean()


def test_equal_errors():
    sounds = np.eye(4, dtype=np.float32)[[0, 0, 1, 1]]
    assert equal_error_rate(sounds, np.array(["a", "a", "b", "b"])) == 0
    assert equal_error_rate(sounds, np.array(["a", "b", "a", "b"])) > 0.4
