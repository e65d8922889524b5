"""The weights of an exported graph, to train on from: what `lab.training.ctc.export` wrote."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import torch
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from onnx import numpy_helper

from conch.decoding.units import Units, units_from_dict
from conch.families.ctc.graphs import OPERATOR
from lab.training.ctc.model import CtcModel, CtcModelConfig

_PREFIX = "model."
"""Of the model within `export.Step`; matrices alone lose their names."""
_MATRIX = re.compile(r"/(\w+?)(?:_(\d+))?/MatMul")
"""The node that multiplies by a weight has its name, and its layer from the second on."""


def load_exported(path: Path) -> tuple[CtcModel, Units]:
    """Return the model of an exported graph, ready for inference, and its units.

    Weights are as the graph has them: int8 products are those integers times their scales.
    """
    try:
        proto = onnx.load(path)
    except DecodeError as error:
        raise ValueError(f"{path} is not an ONNX file, or broken") from error
    described = {item.key: item.value for item in proto.metadata_props}
    inputs = {item.name: item.type.tensor_type.shape.dim for item in proto.graph.input}
    if "units" not in described or "keys" not in inputs:
        raise ValueError(f"{path} is not a graph of lab.training.ctc.export")
    units = units_from_dict(json.loads(described["units"]))
    tensors = {
        item.name.removesuffix("_fp16"): numpy_helper.to_array(item)
        for item in proto.graph.initializer
    }
    for node in proto.graph.node:
        if node.op_type == "Identity" and node.input[0] in tensors:  # equal tensors are kept once
            tensors[node.output[0]] = tensors[node.input[0]]
    weights = {
        name.removeprefix(_PREFIX): value
        for name, value in tensors.items()
        if name.startswith(_PREFIX)
    }
    for node in proto.graph.node:
        named = _MATRIX.fullmatch(node.name)
        if named is None:
            continue
        module = named[1] if named[1] == "output" else f"layers.{named[2] or 0}.{named[1]}"
        weights[f"{module}.weight"] = _matrix(tensors, node).T
    _, layers, heads, _, _ = (dim.dim_value for dim in inputs["keys"])
    size, n_mels, _ = weights["conv1.weight"].shape
    config = CtcModelConfig(
        vocab_size=len(units.vocab),
        stack=units.stack,
        n_mels=n_mels,
        model_size=size,
        num_heads=heads,
        num_layers=layers,
    )
    model = CtcModel(config)
    model.load_state_dict(
        {name: torch.from_numpy(value.astype(np.float32)) for name, value in weights.items()}
    )
    return model.eval(), units


def _matrix(tensors: dict[str, NDArray[np.generic]], node: onnx.NodeProto) -> NDArray[np.float32]:
    if node.op_type == OPERATOR:
        _, integers, scale = node.input
        return tensors[integers].astype(np.float32) * tensors[scale].astype(np.float32)
    return np.asarray(tensors[node.input[1]], np.float32)
