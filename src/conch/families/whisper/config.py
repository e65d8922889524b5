"""Find and load a Whisper model in CTranslate2's format."""

from pathlib import Path

import ctranslate2
import numpy as np

from conch.component.ctranslate import CTranslate2Config, load_ctranslate2
from conch.families.whisper import TINY_EN
from conch.packaged import packaged
from conch.wire.errors import ConfigError

WINDOW_S = 30.0
"""Longest audio of one call, in seconds."""
ENCODER_FRAME_S = 0.02
"""Seconds from one hidden state to the next."""


def load_whisper(config: CTranslate2Config) -> ctranslate2.models.Whisper:
    folder = model_folder(config.model)
    compute_type = config.compute_type
    if compute_type == "auto":
        compute_type = "int8_float32" if config.device == "cpu" else "float16"
    return load_ctranslate2(
        ctranslate2.models.Whisper, folder, config, compute_type, encode_silence
    )


def encode_silence(model: ctranslate2.models.Whisper) -> ctranslate2.StorageView:
    silence = np.zeros((1, model.n_mels, 100), dtype=np.float32)
    return model.encode(ctranslate2.StorageView.from_array(silence))


def model_folder(model: str) -> Path:
    assert TINY_EN.package is not None
    default = (TINY_EN.package, TINY_EN.package_folder, TINY_EN.sha256)
    folder = Path(model) if model else packaged(*default)
    if not (folder / "model.bin").is_file():
        raise ConfigError(f"'{folder}' is not a CTranslate2 Whisper folder: it has no model.bin")
    return folder
