"""Exported folders as Conch and the authors' packages read them, against the model."""

from pathlib import Path

import numpy as np
import pytest
import torch

from conch.catalogue.onnx_header import read_pieces
from conch.families.funasr import network as low_rate
from conch.families.funasr.folder import read_sense_voice
from conch.families.funasr.network import LowRateNetwork
from lab.training.ctc.data import features_of
from lab.training.ctc.model import CtcModelConfig
from lab.training.transducer.units import learned_units
from lab.waveforms import waveform_of

pytest.importorskip("onnx")
# torch's exporter in Python announces its successor, and tells what it does not fold.
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:Constant folding:UserWarning"
)

DATA = Path(__file__).parents[3] / "data"
SIZE = 32
UNITS = learned_units(["the cat sat on the mat", "it's the hat that the cat had"], SIZE)


@pytest.fixture(scope="module")
def waveforms() -> list[np.ndarray]:
    return [waveform_of(path) for path in sorted(DATA.glob("kokoro_*.ogg"))][:4]


@pytest.fixture(scope="module")
def model(waveforms):
    from lab.training.frozen.model import EncoderConfig
    from lab.training.sense_voice.model import SenseVoiceModel

    torch.manual_seed(0)
    encoder = CtcModelConfig(vocab_size=29, model_size=64, num_heads=2, num_layers=3)
    sizes = {"chunk_frames": 8, "left_frames": 16, "frozen_layers": 2}
    model = SenseVoiceModel(EncoderConfig(vocab_size=SIZE, encoder=encoder, **sizes)).eval()
    model.fit(waveforms[1:])
    return model


@pytest.fixture(scope="module")
def folders(model, tmp_path_factory):
    from lab.training.sense_voice.export import export

    return export(model, UNITS, tmp_path_factory.mktemp("sense-voice"))


def heard(folder, waveform):
    front_end = read_sense_voice(folder, "float32").front_end
    return torch.from_numpy(low_rate.features_of(front_end, waveform))[None]


def test_both_folders_have_the_scores_of_the_model(model, folders, waveforms):
    for folder in folders:
        found = read_sense_voice(folder, "float32")
        language, form = found.languages["en"], found.text_forms[0]
        scores, lens = LowRateNetwork(found, 1).run(waveforms[0], language, form)
        x = heard(folder, waveforms[0])
        asked = (torch.tensor([number]) for number in (x.shape[1], language, form))
        with torch.inference_mode():
            expected = model(x, *asked).numpy()
        assert scores.shape == (1, x.shape[1] + 4, len(found.tokens)) and lens == x.shape[1] + 4
        assert np.abs(scores - expected).max() < 1e-3 * np.abs(expected).max()


def test_units_are_those_of_sentencepiece(folders):
    (path,) = folders[0].glob("*.bpe.model")
    tokens = read_sense_voice(folders[1], "float32").tokens
    assert tuple(read_pieces(path)) == read_sense_voice(folders[0], "float32").tokens == tokens
    assert tokens[-5:] == ("<|en|>", "<|NEUTRAL|>", "<|Speech|>", "<|withitn|>", "<|woitn|>")


@torch.inference_mode()
def test_the_front_makes_log_mels_of_normalised_features(model, folders, waveforms):
    found = model.mel(heard(folders[0], waveforms[0]))[0][1:]
    expected = torch.from_numpy(features_of(waveforms[0], 80))
    size = min(len(found), len(expected)) - 2
    assert size > 6 * (len(found) // 6 - 1)
    off = (found[:size] - expected[:size]).square().mean().sqrt()
    assert off < expected.std() / 4


@torch.inference_mode()
def test_padding_changes_nothing_before_it(model):
    x = torch.randn(2, 9, 560)
    asked = torch.tensor([4, 0]), torch.tensor([15, 14])
    together = model(x, torch.tensor([9, 6]), *asked)
    alone = model(x[1:, :6], torch.tensor([6]), *(item[1:] for item in asked))
    assert torch.allclose(together[1:, :10], alone, atol=1e-4)
