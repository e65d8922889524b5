"""Metadata of ONNX files."""

from pathlib import Path

import onnx


def change_metadata(path: Path, **metadata: str) -> None:
    """Give a model other metadata; a value that is empty takes an entry away."""
    model = onnx.load(path)
    known = {item.key: item.value for item in model.metadata_props} | metadata
    del model.metadata_props[:]
    onnx.helper.set_model_props(model, {key: value for key, value in known.items() if value})
    onnx.save(model, path)
