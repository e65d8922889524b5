"""The model held against CTranslate2, and its streaming against its masked full pass."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
import torch.nn.functional as F

from conch.component.ctranslate import CTranslate2Config
from conch.component.features import HISTORY, log_mel_spectrogram, streaming_log_mel
from conch.decoding.units import Characters
from conch.families.whisper.config import load_whisper, model_folder
from lab.training.ctc.model import POSITIONS, Cache, CtcModel, CtcModelConfig, periodic_positions
from lab.training.ctc.whisper_weights import initial_model, read_weights

RECORDING = Path(__file__).parents[3] / "data" / "kokoro_0_00788.ogg"


@pytest.fixture(scope="module", autouse=True)
def inference():
    with torch.inference_mode():
        yield


@pytest.fixture(scope="module")
def model() -> CtcModel:
    """Whisper tiny.en's encoder with an output layer of random weights."""
    with torch.inference_mode(False):
        torch.manual_seed(0)
        return initial_model(model_folder(""), Characters()).eval()


@pytest.fixture(scope="module")
def waveform() -> np.ndarray:
    return soundfile.read(RECORDING, dtype="float32")[0]


@pytest.fixture(scope="module")
def features(waveform) -> torch.Tensor:
    """Two different utterances of 384 frames, `[2, 384, 80]`."""
    found = torch.from_numpy(streaming_log_mel(np.pad(waveform, (HISTORY, 0)))[:384])
    return torch.stack([found, found.roll(100, 0)])


def test_weights_give_whispers_encoder(model, waveform):
    ctranslate2 = pytest.importorskip("ctranslate2")
    features = log_mel_spectrogram(waveform, 600)[None]
    whisper = load_whisper(CTranslate2Config(compute_type="float32", intra_threads=1))
    expected = np.array(whisper.encode(ctranslate2.StorageView.from_array(features)))
    # Whisper's own convolutions and positions around the model's layers.
    weights = read_weights(model_folder("") / "model.bin", "encoder/")
    positions = torch.from_numpy(weights["position_encodings/encodings"])
    mel = torch.from_numpy(features)
    hidden = F.gelu(F.conv1d(mel, model.conv1.weight, model.conv1.bias, padding=1))
    hidden = F.gelu(F.conv1d(hidden, model.conv2.weight, model.conv2.bias, stride=2, padding=1))
    hidden = hidden.transpose(1, 2) + positions[:300]
    for layer in model.layers:
        hidden = layer(hidden, torch.ones(1, 1, 1, 300, dtype=torch.bool))
    np.testing.assert_allclose(model.norm(hidden), expected, rtol=0, atol=1e-3)


@pytest.mark.parametrize(("chunk", "left"), [(4, 30), (8, 64), (16, 16), (32, 256), (64, 40)])
def test_steps_equal_the_masked_pass(model, features, chunk, left):
    lens = torch.tensor([384, 384])
    expected, _ = model(features, lens, chunk, left)
    cache, found = model.empty_cache(2, left), []
    for start in range(0, 384, 2 * chunk):
        log_probs, cache = model.step(
            features[:, start : start + 2 * chunk], torch.tensor([2 * chunk] * 2), cache
        )
        found.append(log_probs)
    torch.testing.assert_close(torch.cat(found, 1), expected, rtol=0, atol=1e-3)
    assert cache.position.tolist() == [192, 192]


def test_streams_of_one_step_may_have_begun_at_different_times(model, features):
    chunk, left = 16, 40
    alone = []
    for row, first in enumerate((0, 128)):  # the second stream begins later
        cache = model.empty_cache(1, left)
        for start in range(first, 256, 2 * chunk):
            log_probs, cache = model.step(
                features[row : row + 1, start : start + 32], torch.tensor([32]), cache
            )
        alone.append((log_probs, cache))
    started = [model.empty_cache(1, left), model.empty_cache(1, left)]
    for start in range(0, 256, 2 * chunk):
        rows = [0, 1] if start >= 128 else [0]
        parts = zip(*(started[row] for row in rows), strict=True)
        merged = Cache(*map(torch.cat, parts))
        log_probs, merged = model.step(
            features[rows, start : start + 32], torch.tensor([32] * len(rows)), merged
        )
        for index, row in enumerate(rows):
            started[row] = Cache(*(item[index : index + 1] for item in merged))
    for row, (expected, cache) in enumerate(alone):
        torch.testing.assert_close(log_probs[row : row + 1], expected, rtol=0, atol=1e-3)
        torch.testing.assert_close(started[row].keys, cache.keys, rtol=0, atol=1e-3)


def test_streams_do_not_end(model, features):
    """A step across the end of the positions equals one at their start, moved there."""
    chunk, lens, left = features[:1, :64], torch.tensor([64]), 32
    far = model.empty_cache(1, left)
    far = far._replace(position=torch.tensor([3 * POSITIONS]))
    near = far._replace(position=torch.tensor([POSITIONS]))
    for _ in range(2):
        found, far = model.step(chunk, lens, far)
        expected, near = model.step(chunk, lens, near)
        torch.testing.assert_close(found, expected)
    assert far.position.item() == 3 * POSITIONS + 64


@pytest.mark.parametrize(("chunk", "left"), [(0, 0), (8, 24), (32, 64)])
def test_padding_changes_nothing(model, features, chunk, left):
    lens = torch.tensor([384, 200])
    together, out_lens = model(features, lens, chunk, left)
    assert out_lens.tolist() == [192, 100]
    alone, _ = model(features[1:, :200], lens[1:], chunk, left)
    torch.testing.assert_close(together[1:, :100], alone, rtol=0, atol=1e-4)
    assert together.isfinite().all()


def test_a_step_of_whole_utterances_is_full_context(model, features):
    lens = torch.tensor([384, 200])
    expected, _ = model(features, lens)
    found, _ = model.step(features, lens, model.empty_cache(2, 0))
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=1e-4)
    torch.testing.assert_close(found[1, :100], expected[1, :100], rtol=0, atol=1e-4)


def test_stacked_frames():
    model = CtcModel(CtcModelConfig(vocab_size=7, stack=2, model_size=32, num_heads=2)).eval()
    features = torch.randn(2, 64, 80)
    log_probs, lens = model(features, torch.tensor([64, 37]))
    assert log_probs.shape == (2, 16, 7)
    assert lens.tolist() == [16, 10]
    torch.testing.assert_close(log_probs.exp().sum(2), torch.ones(2, 16))


def test_positions_repeat_and_follow_whispers():
    weights = read_weights(model_folder("") / "model.bin", "encoder/")
    whispers = torch.from_numpy(weights["position_encodings/encodings"])
    positions = periodic_positions(384)
    assert positions.shape == (POSITIONS, 384)
    # The products that attention works with, between frames close to each other.
    for first in (0, 100, 300):
        ours = positions[first : first + 20] @ positions[first : first + 20].T
        theirs = whispers[first : first + 20] @ whispers[first : first + 20].T
        torch.testing.assert_close(ours, theirs, rtol=0, atol=12.0)
    # Across the end they are those of neighbours.
    across = positions.roll(10, 0)[:20]
    torch.testing.assert_close(
        across @ across.T, positions[500:520] @ positions[500:520].T, rtol=0, atol=1e-3
    )
