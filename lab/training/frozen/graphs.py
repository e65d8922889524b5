"""Graphs as the peers' scripts of export write them, with their metadata."""

from collections.abc import Mapping
from pathlib import Path

import onnx
import torch
from onnx import helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from torch import Tensor, nn


def write(
    module: nn.Module,
    inputs: Mapping[str, Tensor],
    path: Path,
    outputs: list[str],
    axes: Mapping[str, Mapping[int, str]],
    metadata: Mapping[str, str],
    opset: int = 17,
) -> None:
    """Export a module, called with the inputs in their order.

    Args:
        module: Ready for inference.
        inputs: Examples, by name.
        path: The file.
        outputs: Their names.
        axes: Names of the axes of any length, by tensor.
        metadata: Of the file.
        opset: Its version.
    """
    torch.onnx.export(
        module,
        tuple(inputs.values()),
        str(path),
        input_names=[*inputs],
        output_names=outputs,
        dynamic_axes=axes,
        opset_version=opset,
        dynamo=False,
    )
    proto = onnx.load(path)
    helper.set_model_props(proto, dict(metadata))
    onnx.save(proto, path)


def quantize(path: Path) -> None:
    """Make a graph's matrices int8 as sherpa-onnx's exports do, and keep its metadata."""
    proto = onnx.load(path)
    described = {item.key: item.value for item in proto.metadata_props}
    quantize_dynamic(
        path, path, op_types_to_quantize=["MatMul"], weight_type=QuantType.QInt8, per_channel=True
    )
    proto = onnx.load(path)
    helper.set_model_props(proto, described)
    onnx.save(proto, path)
