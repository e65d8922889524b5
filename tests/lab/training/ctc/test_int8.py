"""Products in int8: what they compute, and that a row's result is its own."""

from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from conch.families.ctc.graphs import float_graph  # noqa: E402
from lab.training.ctc.int8 import quantized, with_int8_products  # noqa: E402

SIZE = 256


@pytest.fixture
def weight() -> np.ndarray:
    columns = np.geomspace(1e-3, 10, SIZE)  # each of another magnitude
    return (np.random.default_rng(0).normal(size=(SIZE, SIZE)) * columns).astype(np.float32)


@pytest.fixture
def path(weight, tmp_path) -> Path:
    """Return a graph of one product, `[B, T, SIZE]` with the weight, in int8."""
    shape: list[str | int | None] = ["B", "T", SIZE]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["rows", "weight"], ["product"])],
        "one",
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("product", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(weight, "weight")],
    )
    opset = [helper.make_opsetid("", 17)]
    proto = with_int8_products(helper.make_model(graph, opset_imports=opset, ir_version=8))
    onnx.checker.check_model(proto)
    file = tmp_path / "one.onnx"
    onnx.save(proto, file)
    return file


def run(source: Path | bytes, rows: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    return session.run(None, {"rows": rows})[0]


def rows_of(*magnitudes: float) -> np.ndarray:
    rng = np.random.default_rng(1)
    return np.stack([rng.normal(size=(5, SIZE)) * item for item in magnitudes]).astype(np.float32)


def test_is_the_product_of_the_rounded_rows_and_weights(path, weight):
    rows = rows_of(1e-4, 1.0, 300.0)
    integers, weight_scale = quantized(weight)
    scale = np.abs(rows).max(-1, keepdims=True) / 127
    expected = (np.round(rows / scale) @ integers.astype(np.float64)) * scale * weight_scale
    found = run(path, rows)
    largest = np.abs(expected).max((1, 2), keepdims=True)
    np.testing.assert_allclose(found / largest, expected / largest, rtol=0, atol=1e-5)
    # And near the exact product, in each row and column.
    exact = rows @ weight
    off = np.linalg.norm(found - exact, axis=1) / np.linalg.norm(exact, axis=1)
    assert 0.002 < off.mean() < 0.03


def test_a_row_is_not_changed_by_the_others(path):
    quiet = rows_of(1e-3)
    beside = np.concatenate([quiet, rows_of(1e3), np.zeros_like(quiet)])
    found = run(path, beside)
    np.testing.assert_array_equal(found[:1], run(path, quiet))
    assert not found[2].any()


def test_weights_take_seven_bits_and_zeros_are_no_division(weight):
    weight[:, 3] = 0
    integers, scale = quantized(weight)
    assert np.abs(integers).max() == 63
    np.testing.assert_allclose(integers * scale, weight, rtol=0, atol=0.51 * scale.max())
    assert not integers[:, 3].any()


def test_in_float_it_is_the_product_with_the_rounded_weights(path, weight):
    integers, scale = quantized(weight)
    rows = rows_of(1.0, 0.1)
    found = run(float_graph(path).SerializeToString(), rows)
    np.testing.assert_allclose(found, rows @ (integers * scale), rtol=1e-4, atol=1e-4)


def test_a_graph_without_them_stays_as_it_is(path):
    proto = onnx.load(path)
    del proto.functions[:]
    onnx.save(proto, path)
    assert float_graph(path) == proto
