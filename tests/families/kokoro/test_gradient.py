"""Gradients of a voice, with small networks, beside differences and the component of speakers."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import soxr
import torch
from onnx import TensorProto, helper, numpy_helper
from toy_kokoro import write_kokoro

from conch.component import Row
from conch.families.kokoro.components import CHANNELS, TIMBRE_SIZE, KokoroAcoustic, KokoroConfig
from conch.families.kokoro.gradient import FilterBank, GradientConfig, KokoroGradient
from conch.families.speakers.components import fbank
from conch.families.speakers.weights import EMBEDDING
from conch.wire.errors import InvalidRequestError

RNG = np.random.default_rng(3)
FRAMES = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with both networks; how a voice sounds is the variances of its bands."""
    made = write_kokoro(tmp_path_factory.mktemp("networks"))
    weights = {"axis": np.array([1]), "mix": RNG.standard_normal((80, 192)).astype(np.float32)}
    graph = helper.make_graph(
        [
            helper.make_node("Mul", ["features", "features"], ["squares"]),
            helper.make_node("ReduceMean", ["squares", "axis"], ["variances"], keepdims=0),
            helper.make_node("MatMul", ["variances", "mix"], ["embeddings"]),
        ],
        "variances",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, (1, "frames", 80))],
        [onnx.ValueInfoProto(name="embeddings")],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(model, str(made / EMBEDDING))
    return made


@pytest.fixture
def gradient(folder: Path, monkeypatch: pytest.MonkeyPatch) -> KokoroGradient:
    monkeypatch.setattr("conch.families.kokoro.gradient.speakers_folder", lambda model: folder)
    return KokoroGradient(GradientConfig(model=str(folder), nice=0))


@pytest.fixture(scope="module")
def latents(folder: Path) -> np.ndarray:
    acoustic = KokoroAcoustic(KokoroConfig(model=str(folder), nice=0))
    tokens = np.arange(1, 30, dtype=np.int32)
    inputs = {"tokens": tokens, "speed": np.ones(1, np.float32)}
    made = acoustic([Row(inputs, {"voice": "af_bella"})])[0]["latents"]
    assert made.shape[1] == CHANNELS
    return np.asarray(made[:FRAMES])


def row(latents: np.ndarray, timbre: np.ndarray, target: np.ndarray) -> Row:
    inputs = {"latents": latents, "timbre": timbre, "target": target}
    return Row(inputs, {"voice": "af_bella"})


TIMBRE = RNG.normal(1, 1, TIMBRE_SIZE).astype(np.float32)
TARGET = RNG.standard_normal(192).astype(np.float32)


def test_the_gradient_is_that_of_differences(gradient: KokoroGradient, latents) -> None:
    answer = gradient([row(latents, TIMBRE, TARGET)])[0]
    assert answer["gradient"].shape == (TIMBRE_SIZE,) and answer["similarity"].shape == (1,)
    assert -1 <= answer["similarity"][0] <= 1
    step, size = np.ones(TIMBRE_SIZE, np.float32), np.float32(0.02)
    ends = [
        gradient([row(latents, TIMBRE + sign * size * step, TARGET)])[0]["similarity"][0]
        for sign in (-1, 1)
    ]
    slope = (ends[1] - ends[0]) / (2 * size)
    assert answer["gradient"] @ step == pytest.approx(slope, rel=0.1)
    assert abs(slope) > 1e-5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"latents": np.zeros((FRAMES, 3), np.float32)}, r"frames of \d+ values; sent: \[40, 3\]"),
        ({"latents": np.zeros((3, CHANNELS), np.float32)}, "takes 20 to 400 frames; sent: 3"),
        ({"timbre": TIMBRE[:5]}, "'timbre' takes 128 numbers; sent: 5"),
        ({"target": TARGET[:7]}, "'target' takes 192 numbers; sent: 7"),
    ],
)
def test_a_wrong_input_is_named(gradient: KokoroGradient, latents, change, said: str) -> None:
    sent = row(latents, TIMBRE, TARGET)
    with pytest.raises(InvalidRequestError, match=said):
        gradient([Row({**sent.inputs, **change}, sent.parameters)])


def test_the_filter_bank_is_that_of_kaldi_at_the_other_rate() -> None:
    time = np.arange(48_000) / 24_000
    sweep = 0.2 * np.sin(2 * np.pi * (200 * time + 900 * time**2))
    waveform = (sweep + RNG.normal(0, 0.01, len(time))).astype(np.float32)
    made = FilterBank()(torch.tensor(waveform)).numpy()
    kaldi = fbank(soxr.resample(waveform, 24_000, 16_000))
    count = min(len(made), len(kaldi))
    assert abs(len(made) - len(kaldi)) <= 1 and made.shape[1] == kaldi.shape[1]
    apart = np.abs(made[:count] - kaldi[:count])
    assert np.median(apart) < 0.1
    # Resampling leaves little of the last band.
    correlation = np.corrcoef(made[:count, :-1].ravel(), kaldi[:count, :-1].ravel())[0, 1]
    assert correlation > 0.99
