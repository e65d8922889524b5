"""Networks whose weights are in files beside them, as large ones have them."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from conch.component.onnx import open_network

FLOAT = onnx.TensorProto.FLOAT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with `model.onnx`, whose product doubles, and `model.onnx.data`."""
    weights = numpy_helper.from_array(2 * np.eye(64, dtype=np.float32), "w")
    x, y = (helper.make_tensor_value_info(name, FLOAT, ["N", 64]) for name in "xy")
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    model = helper.make_model(
        helper.make_graph([node], "doubles", [x], [y], [weights]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.save(
        *(model, tmp_path / "model.onnx"),
        save_as_external_data=True,
        location="model.onnx.data",
        size_threshold=0,
    )
    return tmp_path


def doubles(folder: Path, content: bytes | None = None) -> bool:
    session = open_network("toy", folder / "model.onnx", 1, content=content)
    x = np.ones((1, 64), np.float32)
    return bool((session.run(None, {"x": x})[0] == 2 * x).all())


def test_weights_are_beside_the_network_or_linked_there(folder: Path, tmp_path: Path) -> None:
    assert doubles(folder)
    linked = tmp_path / "linked"
    linked.mkdir()
    for name, parent in (("model.onnx", "here"), ("model.onnx.data", "there")):
        (tmp_path / parent).mkdir()
        path = (folder / name).rename(tmp_path / parent / "5f3c")
        (linked / name).symlink_to(path)
    assert doubles(linked)


def test_weights_of_a_network_that_was_changed(folder: Path, tmp_path: Path) -> None:
    content = (folder / "model.onnx").read_bytes()
    assert doubles(folder, content)
    (folder / "model.onnx.data").rename(tmp_path / "elsewhere")
    (folder / "model.onnx.data").symlink_to(tmp_path / "elsewhere")
    assert doubles(folder, content)
