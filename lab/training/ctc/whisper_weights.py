"""Whisper's encoder out of a CTranslate2 folder, as the start of a CTC model."""

import struct
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray

from conch.decoding.units import Units
from lab.training.ctc.model import CtcModel, CtcModelConfig

_DTYPES = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}
"""CTranslate2's numbering (include/ctranslate2/types.h), without bfloat16, which numpy lacks."""
_BINARY_VERSION = 6


def read_weights(path: Path, prefix: str = "") -> dict[str, NDArray[np.float32]]:
    """Return the tensors of a `model.bin` whose names start with a prefix, the prefix removed.

    The file is a version, the name and revision of the model's kind, then each tensor: its name,
    rank, dimensions, type and bytes (python/ctranslate2/specs/model_spec.py writes it). All
    numbers are little-endian, and names end with a zero that their length counts. int8 weights are
    multiplied out, and small integers such as `num_heads` are arrays of shape [].
    """
    with path.open("rb") as file:
        version = _number(file, "I")
        if version != _BINARY_VERSION:
            raise ValueError(f"{path} has version {version}; this reads {_BINARY_VERSION}")
        _name(file)
        _number(file, "I")  # the kind's revision
        raw = dict(_tensor(file, path) for _ in range(_number(file, "I")))
    weights = {}
    for name, tensor in raw.items():
        if not name.startswith(prefix) or name.endswith("_scale"):
            continue
        scale = raw.get(f"{name}_scale")
        value = tensor.astype(np.float32)
        if scale is not None:
            value /= scale.astype(np.float32).reshape(-1, *[1] * (value.ndim - 1))
        weights[name.removeprefix(prefix)] = value
    return weights


def _tensor(file: BinaryIO, path: Path) -> tuple[str, NDArray[np.generic]]:
    name = _name(file)
    shape = [_number(file, "I") for _ in range(_number(file, "B"))]
    type_id, num_bytes = _number(file, "B"), _number(file, "I")
    if type_id not in _DTYPES:
        raise ValueError(f"{path} has {name} in CTranslate2's type {type_id}, which is not read")
    array = np.frombuffer(file.read(num_bytes), dtype=_DTYPES[type_id])
    return name, array.reshape(shape)


def _name(file: BinaryIO) -> str:
    return file.read(_number(file, "H"))[:-1].decode()


def _number(file: BinaryIO, code: str) -> int:
    layout = struct.Struct(f"<{code}")
    return int(layout.unpack(file.read(layout.size))[0])


def initial_model(folder: Path, units: Units) -> CtcModel:
    """Return a model with the encoder of a CTranslate2 Whisper folder and a new output layer."""
    weights = read_weights(folder / "model.bin", "encoder/")
    size, n_mels, _ = weights["conv1/weight"].shape
    config = CtcModelConfig(
        vocab_size=len(units.vocab),
        stack=units.stack,
        n_mels=n_mels,
        model_size=size,
        num_heads=int(weights["num_heads"]),
        num_layers=sum(name.endswith("ffn/linear_0/weight") for name in weights),
    )
    model = CtcModel(config)
    state = {
        own: torch.from_numpy(weights[theirs].copy())
        for own, theirs in _names(config.num_layers).items()
    }
    missing = model.load_state_dict(state, strict=False).missing_keys
    assert set(missing) == {"output.weight", "output.bias"}
    return model


def with_new_output(model: CtcModel, units: Units) -> CtcModel:
    """Return a model with the encoder of another and a new output layer for other units."""
    config = replace(model.config, vocab_size=len(units.vocab), stack=units.stack)
    adapted = CtcModel(config)
    encoder = {
        name: value for name, value in model.state_dict().items() if not name.startswith("output.")
    }
    missing = adapted.load_state_dict(encoder, strict=False).missing_keys
    assert set(missing) == {"output.weight", "output.bias"}
    return adapted


def _names(num_layers: int) -> dict[str, str]:
    """Return CTranslate2's name of each of the model's parameters, without the output layer."""
    names: dict[str, str] = {}
    for conv in ("conv1", "conv2"):
        names |= {f"{conv}.{part}": f"{conv}/{part}" for part in ("weight", "bias")}
    norms = {"norm": "layer_norm"}
    for index in range(num_layers):
        own, theirs = f"layers.{index}", f"layer_{index}"
        norms[f"{own}.attention_norm"] = f"{theirs}/self_attention/layer_norm"
        norms[f"{own}.feed_forward_norm"] = f"{theirs}/ffn/layer_norm"
        for linear, theirs_linear in (
            ("attention_in", "self_attention/linear_0"),
            ("attention_out", "self_attention/linear_1"),
            ("feed_forward_in", "ffn/linear_0"),
            ("feed_forward_out", "ffn/linear_1"),
        ):
            for part in ("weight", "bias"):
                names[f"{own}.{linear}.{part}"] = f"{theirs}/{theirs_linear}/{part}"
    for own, theirs in norms.items():
        names |= {f"{own}.weight": f"{theirs}/gamma", f"{own}.bias": f"{theirs}/beta"}
    return names
