"""The graph that Triton's ONNX Runtime backend is to serve, against the Python component."""

from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format
from recordings import recordings_of
from tritonclient.grpc import model_config_pb2

from conch.component import Row
from conch.families.ctc.encoder import CtcEncoder, CtcEncoderConfig
from conch.families.ctc.vocabulary import SHIPPED
from conch.wire.errors import AudioError

pytest.importorskip("onnx")
# torch's exporter in Python announces its successor.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

ROOT = Path(__file__).parents[4]
OVERLAY = ROOT / "component_models" / "ctc_encoder" / "configs" / "onnxruntime.pbtxt"


@pytest.fixture(scope="module")
def component(tmp_path_factory) -> CtcEncoder:
    """The Python component with products in float32, as the graph has them."""
    onnx = pytest.importorskip("onnx")
    from conch.families.ctc.graphs import float_graph

    path = tmp_path_factory.mktemp("float") / "model.onnx"
    onnx.save(float_graph(SHIPPED), path)
    return CtcEncoder(CtcEncoderConfig(model=str(path), intra_threads=2))


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    onnxruntime = pytest.importorskip("onnxruntime")
    from lab.training.ctc.waveform_graph import main

    path = tmp_path_factory.mktemp("waveform") / "model.onnx"
    main([str(SHIPPED), "--out", str(path)])
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def test_equals_the_python_component_on_rows_of_any_length(session, component):
    waveforms = [item.waveform() for item in recordings_of(ROOT / "tests" / "data")[:3]]
    waveforms += [waveforms[0][:1], waveforms[1][:5_000], waveforms[2][:16_123]]
    shapes = np.array([[len(item)] for item in waveforms], np.int32)
    log_probs, lens = session.run(
        ["log_probs", "log_probs_lens"],
        {"waveform": np.concatenate(waveforms), "waveform_shapes": shapes},
    )
    answers = component([Row({"waveform": item}) for item in waveforms])
    assert lens.dtype == np.int32
    for row, answer in enumerate(answers):
        (length,) = answer["log_probs_lens"]
        assert lens[row].tolist() == [length]
        np.testing.assert_allclose(log_probs[row, :length], answer["log_probs"], rtol=0, atol=1e-3)


@pytest.mark.nightly  # a third of a minute
def test_what_the_component_would_refuse_leaves_the_other_rows_alone(session, component):
    """The graph checks nothing: a caller is to know (configs/onnxruntime.pbtxt)."""
    noise = np.random.default_rng(0).normal(0, 0.1, 42 * 16_000).astype(np.float32)
    accepted = noise[:16_000]
    refused = [noise, noise[:0]]
    [answer] = component([Row({"waveform": accepted})])
    for item in refused:
        with pytest.raises(AudioError):
            component([Row({"waveform": item})])
    for row, length in zip(refused, (2100, 0), strict=True):
        log_probs, lens = session.run(
            ["log_probs", "log_probs_lens"],
            {
                "waveform": np.concatenate([accepted, row]),
                "waveform_shapes": np.array([[len(accepted)], [len(row)]], np.int32),
            },
        )
        assert lens.tolist() == [[50], [length]]
        np.testing.assert_allclose(log_probs[0, :50], answer["log_probs"], rtol=0, atol=1e-3)


def test_its_tensors_are_those_that_the_overlay_tells_triton(session):
    """The backend's own checks: a ragged input has one axis, outputs agree in every one."""
    config = text_format.Parse(OVERLAY.read_text(), model_config_pb2.ModelConfig())
    types = {"TYPE_FP32": "tensor(float)", "TYPE_INT32": "tensor(int32)"}

    def declared(kind: int) -> str:
        return types[model_config_pb2.DataType.Name(kind)]

    def axes(shape: list) -> list[int]:
        return [item if isinstance(item, int) else -1 for item in shape]

    graph = {item.name: (item.type, axes(item.shape)) for item in session.get_inputs()}
    (waveform,), (shapes,) = config.input, config.batch_input
    assert waveform.allow_ragged_batch
    assert graph == {
        waveform.name: (declared(waveform.data_type), [-1]),
        shapes.target_name[0]: (declared(shapes.data_type), [-1, len(waveform.dims)]),
    }
    for item in session.get_outputs():
        (output,) = [output for output in config.output if output.name == item.name]
        assert (item.type, axes(item.shape)) == (declared(output.data_type), [-1, *output.dims])
    assert len(session.get_outputs()) == len(config.output)
