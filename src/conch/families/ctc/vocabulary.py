"""The output units of an exported CTC model, read without the model."""

import json
from pathlib import Path

from conch.catalogue.checks import UnfitModelError
from conch.catalogue.onnx_header import read_metadata
from conch.component.parameters import existing
from conch.decoding.units import ENCODER_FRAME_MS, Symbols
from conch.decoding.vocab import OutputUnits
from conch.families.ctc import WEIGHTS
from conch.families.ctc.folder import CtcFolder, read_ctc
from conch.wire.errors import ConfigError

SHIPPED = WEIGHTS / "ctc-en.onnx"


def model_file(model: str) -> Path:
    """Return the path of a model's .onnx file; `model` is empty for the shipped one."""
    return Path(model) if model else SHIPPED


def read_vocabulary(model: str) -> OutputUnits:
    if is_folder(model):
        return vocabulary_of_folder(read_folder(model))
    path = existing(model_file(model), "the CTC model")
    try:
        described = read_metadata(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot load the CTC model {path}: {error}") from error
    return vocabulary_of(described, path)


def is_folder(model: str) -> bool:
    """Return whether a model is a folder, not a graph of Conch's recipe."""
    return Path(model).is_dir() if model else False


def read_folder(model: str, precision: str = "float32") -> CtcFolder:
    try:
        return read_ctc(Path(model), precision)
    except UnfitModelError as error:
        raise ConfigError(f"{model} is no CTC model: {error}") from None


def vocabulary_of_folder(model: CtcFolder) -> OutputUnits:
    tokens, blank = model.tokens, model.blank
    return exported_vocabulary(
        (tokens[blank], *tokens[:blank], *tokens[blank + 1 :]), model.frame_ms
    )


def exported_vocabulary(symbols: tuple[str, ...], frame_ms: int) -> OutputUnits:
    """Return the output units of these symbols, the blank first."""
    units = Symbols(symbols, frame_ms // ENCODER_FRAME_MS)
    return OutputUnits(units.vocab, units.stack, json.dumps(units.to_dict()), symbols)


def vocabulary_of(described: dict[str, str], path: Path) -> OutputUnits:
    try:
        texts = tuple(json.loads(described["vocab"]))
        return OutputUnits(texts, int(described["stack"]), described["units"])
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{path} is not a graph of lab.training.ctc.export: its metadata lack {error}"
        ) from error
