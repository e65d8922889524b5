"""Graphs of ONNX on PyTorch, beside ONNX Runtime, and their gradients beside differences."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from conch.component.torch_graph import OPERATORS, TorchGraph

RNG = np.random.default_rng(2)


def drawn(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def whole(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


X = drawn(2, 6, 8)
CASES: list[tuple[str, list[Any], dict[str, Any]]] = [
    *((kind, [X], {}) for kind in ("Cos", "Exp", "Floor", "Identity", "Relu", "Sigmoid", "Sin")),
    ("Sqrt", [X**2 + 1], {}),
    *((kind, [X, drawn(8)], {}) for kind in ("Add", "Div", "Max", "Min", "Mul", "Sub")),
    ("Div", [whole(7, -7, 8), whole(2, 2, 3)], {}),
    *((kind, [X, X + (X > 0)], {}) for kind in ("Equal", "Greater")),
    ("Cast", [X * 3], {"to": TensorProto.INT32}),
    ("Concat", [X, drawn(2, 1, 8)], {"axis": 1}),
    ("Conv", [X, drawn(4, 3, 3), drawn(4)], {"pads": [1, 1], "group": 2, "strides": [2]}),
    ("Conv", [drawn(1, 2, 6, 8), drawn(3, 2, 3, 3), drawn(3)], {"pads": [1, 1, 1, 1]}),
    (
        "ConvTranspose",
        [X, drawn(6, 3, 4), drawn(3)],
        {"pads": [1, 1], "strides": [2], "output_padding": [1]},
    ),
    ("Expand", [drawn(6, 1), whole(2, 6, 8)], {}),
    ("Gather", [X, whole(0, -1, 2)], {"axis": 1}),
    ("LeakyRelu", [X], {"alpha": 0.2}),
    ("MatMul", [X, drawn(8, 3)], {}),
    ("NonZero", [np.maximum(X, 0)], {}),
    ("Pad", [X, whole(0, 0, 2, 0, 0, 1)], {"mode": "reflect"}),
    ("Pad", [X, whole(1, 0, 2, 0, 3, 1)], {}),
    ("Pow", [X, np.float32(2)], {}),
    ("Range", [np.int64(1), np.int64(9), np.int64(3)], {}),
    ("ReduceMean", [X, whole(1)], {}),
    ("ReduceSum", [X, whole(0, 2)], {"keepdims": 0}),
    ("Reshape", [X, whole(0, -1)], {}),
    (
        "Resize",
        [X, None, np.array([1, 1, 3], np.float32)],
        {
            "mode": "nearest",
            "nearest_mode": "floor",
            "coordinate_transformation_mode": "asymmetric",
        },
    ),
    ("ScatterND", [X[0], whole(0, 3).reshape(2, 1), drawn(2, 8)], {}),
    ("Shape", [X], {"start": 1}),
    ("Slice", [X, whole(1, -5), whole(5, 2**62), whole(1, 2), whole(2, 1)], {}),
    ("Slice", [X, whole(-1), whole(-(2**62)), whole(2), whole(-1)], {}),
    ("Split", [X, whole(2, 4)], {"axis": 1}),
    ("Squeeze", [X[:, :1], whole(1)], {}),
    ("Sum", [X, drawn(8), drawn(6, 1)], {}),
    ("Transpose", [X], {"perm": [2, 0, 1]}),
    ("Unsqueeze", [X, whole(0, 3)], {}),
    ("Where", [X > 0, X, drawn(8)], {}),
]


def graph_of(kind: str, inputs: list[Any], attributes: Mapping[str, Any]) -> onnx.ModelProto:
    """Return a graph whose first input is one, and whose other inputs are weights."""
    names = [f"in{place}" if value is not None else "" for place, value in enumerate(inputs)]
    count = 2 if kind == "Split" else 1
    outputs = [f"out{place}" for place in range(count)]
    weights = [
        numpy_helper.from_array(np.asarray(value), name)
        for name, value in zip(names[1:], inputs[1:], strict=True)
        if value is not None
    ]
    first = np.asarray(inputs[0])
    kinds = helper.np_dtype_to_tensor_dtype(first.dtype)
    graph = helper.make_graph(
        [helper.make_node(kind, names, outputs, **attributes)],
        "one",
        [helper.make_tensor_value_info("in0", kinds, first.shape)],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.parametrize(("kind", "inputs", "attributes"), CASES, ids=lambda case: str(case)[:16])
def test_an_operator_is_that_of_onnx_runtime(kind, inputs, attributes, tmp_path: Path) -> None:
    onnx.save(graph_of(kind, inputs, attributes), str(tmp_path / "one.onnx"))
    session = onnxruntime.InferenceSession(tmp_path / "one.onnx")
    expected = session.run(None, {"in0": np.asarray(inputs[0])})
    made = TorchGraph(tmp_path / "one.onnx")({"in0": torch.tensor(inputs[0])})
    for found, right in zip(made, expected, strict=True):
        assert tuple(found.shape) == right.shape
        np.testing.assert_allclose(found.numpy(), right, rtol=1e-5, atol=1e-5)


def test_every_operator_has_a_case() -> None:
    quantised = {"DynamicQuantizeLinear"}
    assert {kind for kind, *_ in CASES} == OPERATORS.keys() - quantised


def test_quantised_products_are_those_of_the_real_values(tmp_path: Path) -> None:
    real = drawn(6, 3)
    scale = np.float32(np.abs(real).max() / 127)
    weights = {
        "weight": np.rint(real / scale).astype(np.int8),
        "zero": np.int8(0),
        "scale": scale,
    }
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "qs", "qz"]),
        helper.make_node("MatMulInteger", ["q", "weight", "qz", "zero"], ["product"]),
        helper.make_node("Cast", ["product"], ["whole"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["qs", "scale"], ["scales"]),
        helper.make_node("Mul", ["whole", "scales"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "quantised",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (5, 6))],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(model, str(tmp_path / "q.onnx"))
    value = drawn(5, 6)
    given = torch.tensor(value, requires_grad=True)
    (made,) = TorchGraph(tmp_path / "q.onnx")({"x": given})
    np.testing.assert_allclose(made.detach().numpy(), value @ real, atol=0.1)
    made.sum().backward()
    assert given.grad is not None
    np.testing.assert_allclose(given.grad.numpy(), np.tile(real.sum(axis=1), (5, 1)), atol=0.1)


def test_gradients_stay_finite_where_a_root_or_a_power_is_at_its_end(tmp_path: Path) -> None:
    for kind, at in (("Sqrt", 0.0), ("Exp", 500.0)):
        onnx.save(graph_of(kind, [np.array([at], np.float32)], {}), str(tmp_path / "one.onnx"))
        given = torch.tensor([at], requires_grad=True)
        (made,) = TorchGraph(tmp_path / "one.onnx")({"in0": given})
        made.sum().backward()
        assert torch.isfinite(made).all() and given.grad is not None
        assert torch.isfinite(given.grad).all()


def test_an_unknown_operator_is_named(tmp_path: Path) -> None:
    onnx.save(graph_of("Tan", [X], {}), str(tmp_path / "one.onnx"))
    with pytest.raises(ValueError, match=r"one\.onnx: the operator Tan is unknown"):
        TorchGraph(tmp_path / "one.onnx")
