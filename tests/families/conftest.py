from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from ctc_export import exported
from letters import letters as letters
from recordings import Recording, recordings_of

from conch.cli.demo import SPEECH
from conch.decoding.units import Characters
from conch.families.whisper.config import model_folder
from lab.training.ctc.model import CtcModel


@pytest.fixture(scope="session")
def speech() -> list[Recording]:
    return recordings_of(Path(__file__).parents[1] / "data")


@pytest.fixture(scope="session")
def waveforms(speech: list[Recording]) -> list[np.ndarray]:
    return [item.waveform() for item in speech[:3]]


@pytest.fixture(scope="session")
def tiger() -> np.ndarray:
    """Return seven seconds of verse."""
    return soundfile.read(SPEECH, dtype="float32")[0]


@pytest.fixture(scope="session")
def exported_ctc(tmp_path_factory) -> tuple[CtcModel, Path]:
    """Whisper tiny.en's encoder with an output layer of random weights, and its float32 graph."""
    pytest.importorskip("onnx")
    from lab.training.ctc.whisper_weights import initial_model

    torch.manual_seed(0)
    model = initial_model(model_folder(""), Characters()).eval()
    return model, exported(model, Characters(), tmp_path_factory.mktemp("ctc"))
