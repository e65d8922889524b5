"""CTC models as the components load them."""

import warnings
from pathlib import Path

from conch.decoding.units import Units
from lab.training.ctc.model import CtcModel


def exported(model: CtcModel, units: Units, folder: Path) -> Path:
    """Write a model's float32 graph into a folder and return it."""
    from lab.training.ctc import checkpoint
    from lab.training.ctc.export import main

    checkpoint.save(folder / "model.pt", model, units)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's exporter about its successor
        main([str(folder / "model.pt"), "--out", str(folder / "model.onnx"), "--weights", "fp32"])
    return folder / "model.onnx"
