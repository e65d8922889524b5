"""Make a network for ONNX Runtime, operator by operator."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from conch.component import Array, FloatArray

MICROSOFT = "com.microsoft"
"""Domain of ONNX Runtime's own operators."""


class Graph:
    """A graph under construction; values are names."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def takes(self, name: str, *shape: int | str, elem_type: int = TensorProto.FLOAT) -> str:
        self._inputs.append(helper.make_tensor_value_info(name, elem_type, shape))
        return name

    def gives(
        self, value: str, name: str, *shape: int | str, elem_type: int = TensorProto.FLOAT
    ) -> None:
        self._nodes.append(helper.make_node("Identity", [value], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, elem_type, shape))

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        return self.ops(1, op_type, *inputs, **attributes)[0]

    def ops(self, count: int, op_type: str, *inputs: str, **attributes: Any) -> list[str]:
        outputs = [f"{op_type}.{len(self._nodes)}.{index}" for index in range(count)]
        self._nodes.append(helper.make_node(op_type, inputs, outputs, **attributes))
        return outputs

    def array(self, value: Array) -> str:
        name = f"array.{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def ints(self, *values: int) -> str:
        return self.array(np.array(values, np.int64))

    def product_by_row(self, value: str, weight: FloatArray) -> str:
        """Multiply by `[inputs, outputs]` in int8, scaled by row: no row depends on the others."""
        integers, scale = quantized(weight)
        unit = self.array(np.array(1 / 127, np.float32))
        middle = self.array(np.array(128, np.uint8))
        # A row of zeros is 0 / 0: whatever integers that gives, the product is 0 again below.
        largest = self.op("ReduceMax", self.op("Abs", value), self.ints(-1), keepdims=1)
        # Signed by signed took 40 times as long.
        rows = self.op("QuantizeLinear", self.op("Div", value, largest), unit, middle)
        inputs = (rows, self.array(integers), unit, self.array(scale), middle)
        product = self.op("MatMulIntegerToFloat", *inputs, domain=MICROSOFT)
        return self.op("Mul", product, largest)

    def rows(self, weight: FloatArray, indices: str) -> str:
        """Look up rows of a matrix, which is kept in int8 with a scale for each row."""
        scale = np.abs(weight).max(axis=1, keepdims=True) / 127
        integers = np.round(weight / scale).astype(np.int8)
        floats = self.op(
            "Cast", self.op("Gather", self.array(integers), indices), to=TensorProto.FLOAT
        )
        return self.op(
            "Mul", floats, self.op("Gather", self.array(scale.astype(np.float32)), indices)
        )

    def rotary(self, longest: int, size: int, base: float) -> list[str]:
        """Return cosines and sines of positions, to turn the first `size` values of a head."""
        angles = np.arange(longest)[:, None] * base ** (-np.arange(0, size, 2) / size)
        return [self.array(wave(angles).astype(np.float32)) for wave in (np.cos, np.sin)]

    def turned(
        self, value: str, positions: str, rotary: Sequence[str], size: int, heads: int
    ) -> str:
        """Add rotary embeddings, as of `rotary`, to the interleaved values of heads."""
        return self.op(
            "RotaryEmbedding",
            *(value, positions, *rotary),
            domain=MICROSOFT,
            interleaved=1,
            num_heads=heads,
            rotary_embedding_dim=size,
        )

    def model(self, name: str) -> onnx.ModelProto:
        graph = helper.make_graph(self._nodes, name, self._inputs, self._outputs, self._weights)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def quantized(weight: FloatArray) -> tuple[Array, FloatArray]:
    """Return int8 `[inputs, outputs]` of a matrix, and a scale float32 for each output.

    Without VNNI, ONNX Runtime adds the products of two neighbouring inputs in 16 bits. Inputs are
    up to 255, so the weights of a pair may add up to 128.
    """
    # Two roundings add at most 1.
    pairs = np.add.reduceat(weight, np.arange(0, len(weight), 2), axis=0)
    most = np.maximum(np.abs(weight).max(axis=0), np.abs(pairs).max(axis=0))
    scale = most / 127
    return np.round(weight / scale).astype(np.int8), scale.astype(np.float32)
