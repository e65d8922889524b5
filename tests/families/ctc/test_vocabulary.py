"""The metadata of an .onnx file, as ONNX Runtime reads them too."""

import json

import onnxruntime
import pytest

from conch.families.ctc.vocabulary import SHIPPED, read_vocabulary
from conch.wire.errors import ConfigError


def test_the_shipped_model_has_what_onnx_runtime_reads():
    described = onnxruntime.InferenceSession(SHIPPED).get_modelmeta().custom_metadata_map
    found = read_vocabulary("")
    assert list(found.texts) == json.loads(described["vocab"])
    assert str(found.stack) == described["stack"]
    assert found.units == described["units"]
    assert read_vocabulary(str(SHIPPED)) == found


def saved(path, **metadata: str) -> str:
    onnx = pytest.importorskip("onnx")
    model = onnx.ModelProto(ir_version=8, producer_name="a test", model_version=-1)
    model.graph.name = "g" * 300
    onnx.helper.set_model_props(model, metadata)
    onnx.save(model, path)
    return str(path)


def test_other_fields_are_passed_over(tmp_path):
    vocab = ["", "é", "x" * 200]
    model = saved(tmp_path / "m.onnx", other="", vocab=json.dumps(vocab), stack="2", units="{}")
    assert read_vocabulary(model).texts == tuple(vocab)
    assert read_vocabulary(model).frame_s == pytest.approx(0.04)


@pytest.mark.parametrize("metadata", [{}, {"vocab": "[]", "stack": "2"}, {"vocab": "no JSON"}])
def test_other_models_are_refused(tmp_path, metadata):
    model = saved(tmp_path / "m.onnx", **metadata)
    with pytest.raises(ConfigError, match=r"is not a graph of lab\.training\.ctc\.export"):
        read_vocabulary(model)


NO_MODEL = r"cannot load the CTC model .*broken\.onnx"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x72\x02\x08\x01", "lack 'vocab'"),  # metadata without a key
        (b"", NO_MODEL),
        (b"no model", NO_MODEL),
        (SHIPPED.read_bytes()[:1000], NO_MODEL),
        (b"\x80" * 20, NO_MODEL),
        (b"\x72\x02\x0a", NO_MODEL),
        (b"\x72\x04\x0a\x00\x12\x05", NO_MODEL),
    ],
)
def test_what_is_no_model_is_refused(tmp_path, content, message):
    path = tmp_path / "broken.onnx"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        read_vocabulary(str(path))


def test_a_model_that_is_not_there():
    with pytest.raises(ConfigError, match=r"the CTC model absent\.onnx does not exist"):
        read_vocabulary("absent.onnx")
