"""Products in int8 for an exported graph, with a scale for each row of the activations.

A row is one frame of one stream, and its scale is its largest value, so that no other row changes
its result: neither what shares the batch nor padding. It is the dynamic per-token quantization of
ZeroQuant (https://arxiv.org/abs/2206.01861); ONNX Runtime's own `quantize_dynamic` has one scale
for a whole batch. A product is a function inside the file, of operators that ONNX has since 2019.
"""

import numpy as np
import onnx
import onnx.parser
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from conch.families.ctc.graphs import DOMAIN, OPERATOR, QUANTIZED

_SMALLEST = 2**16
"""Matrices of fewer numbers stay as they are; the output layer is one."""
_WEIGHT_MAX = 63
"""Seven bits: CPUs before VNNI add two products of a weight and an activation in 16 bits."""
_FUNCTION = f"""
<domain: "{DOMAIN}", opset_import: ["" : 17]>
{OPERATOR} (rows, weight, weight_scale) => (product)
{{{QUANTIZED}
    sums = MatMulInteger (quantized, weight, zero)
    exact = Cast <to = 1> (sums)
    by_row = Mul (exact, scale)
    product = Mul (by_row, weight_scale)
}}
"""


def with_int8_products(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a graph whose large matrices are int8, with a scale for each column."""
    weights = {
        tensor.name: tensor
        for tensor in proto.graph.initializer
        if len(tensor.dims) == 2 and np.prod(tensor.dims) >= _SMALLEST
    }
    products = [
        node for node in proto.graph.node if node.op_type == "MatMul" and node.input[1] in weights
    ]
    if not products:
        raise ValueError(f"no product with a matrix of {_SMALLEST} numbers or more")
    for name in {node.input[1] for node in products}:
        integers, scale = quantized(numpy_helper.to_array(weights[name]))
        proto.graph.initializer.remove(weights[name])
        proto.graph.initializer.append(numpy_helper.from_array(integers, f"{name}_int8"))
        proto.graph.initializer.append(numpy_helper.from_array(scale, f"{name}_scale"))
    for node in products:
        rows, name = node.input
        inputs = [rows, f"{name}_int8", f"{name}_scale"]
        node.CopyFrom(helper.make_node(OPERATOR, inputs, node.output, node.name, domain=DOMAIN))
    proto.functions.append(onnx.parser.parse_function(_FUNCTION))
    proto.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return proto


def quantized(weight: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return a matrix as integers and the scale of each column, whose product it nearly is."""
    scale = np.maximum(np.abs(weight).max(0), 1e-12) / _WEIGHT_MAX
    return np.round(weight / scale).astype(np.int8), scale.astype(np.float32)
