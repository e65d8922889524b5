"""The graphs for a CPU against the exported file that they are made of, in int8.

The other tests of the encoders compare those of a float32 file with the model in PyTorch.
"""

import numpy as np
import onnx
import onnxruntime
import pytest

from conch.component.features import HISTORY, streaming_log_mel
from conch.families.ctc.graphs import OPERATOR, cpu_graph, float_graph
from conch.families.ctc.vocabulary import SHIPPED

FRAMES = 64


def opened(path):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


@pytest.fixture(scope="module")
def exported():
    return opened(SHIPPED)


def new_streams(session, batch, left_frames):
    """Return caches that say nothing."""
    sizes = {"batch": batch, "left_frames": left_frames}
    kinds = {"tensor(float)": np.float32, "tensor(int64)": np.int64}
    return {
        item.name: np.zeros([sizes.get(dim, dim) for dim in item.shape], kinds[item.type])
        for item in session.get_inputs()
        if item.name not in ("features", "lens")
    }


def features_of(waveform):
    return streaming_log_mel(np.pad(waveform[: len(waveform) // 640 * 640], (HISTORY, 0)), 80)


def assert_alike(found, expected):
    """Sums in another order round some activations to another integer, and no more."""
    found, expected = np.exp(found), np.exp(expected)
    assert np.abs(found - expected).mean() < 2e-3
    assert (found.argmax(-1) == expected.argmax(-1)).mean() > 0.97


def test_a_whole_utterance(exported, speech):
    graph = opened(cpu_graph(SHIPPED, is_whole=True))
    for item in speech:
        features = features_of(item.waveform())[None]
        feed = {"features": features, "lens": np.array([features.shape[1]])}
        feed |= new_streams(exported, 1, 0)
        (found,) = graph.run(None, feed)
        assert_alike(found, exported.run(["log_probs"], feed)[0])


def test_streams_one_of_which_is_new_and_one_ends(exported, speech):
    graph = opened(cpu_graph(SHIPPED, is_whole=False))
    names = [item.name for item in exported.get_outputs()]
    assert [item.name for item in graph.get_outputs()] == names
    features = np.stack([features_of(item.waveform())[: 4 * FRAMES] for item in speech[:2]])
    streams = new_streams(exported, 2, 40)
    for step in range(4):
        chunk = features[:, step * FRAMES : (step + 1) * FRAMES]
        feed = {"features": chunk, "lens": np.array([FRAMES, 20 if step == 3 else FRAMES])}
        feed |= streams
        expected = dict(zip(names, exported.run(None, feed), strict=True))
        found = dict(zip(names, graph.run(None, feed), strict=True))
        assert_alike(found["log_probs"][0], expected["log_probs"][0])
        assert_alike(found["log_probs"][1, :10], expected["log_probs"][1, :10])
        for name, value in streams.items():
            following = found[f"next_{name}"]
            assert following.shape == value.shape
            assert np.abs(following - expected[f"next_{name}"]).mean() < 0.02
            streams[name] = expected[f"next_{name}"]
        # The second stream begins with the second step.
        if step == 0:
            streams = {name: value.copy() for name, value in streams.items()}
            for value in streams.values():
                value[1] = 0


def test_nothing_is_computed_in_vain():
    whole = onnx.load_from_string(cpu_graph(SHIPPED, is_whole=True))
    kinds = [node.op_type for node in whole.graph.node]
    assert kinds.count("MultiHeadAttention") == 6
    assert not {"Softmax", "IsNaN"} & {*kinds}
    assert [item.name for item in whole.graph.output] == ["log_probs"]


def test_a_file_that_says_how_its_products_are_made_is_taken_at_its_word(tmp_path):
    """As `float_graph` writes one."""
    onnx.save(float_graph(SHIPPED), tmp_path / "float.onnx")
    made = onnx.load_from_string(cpu_graph(tmp_path / "float.onnx", is_whole=True))
    (product,) = (item for item in made.functions if item.name == OPERATOR)
    assert "MatMulIntegerToFloat" not in {node.op_type for node in product.node}


def test_a_graph_with_other_names_stays_as_it_is(tmp_path, caplog):
    proto = onnx.load(SHIPPED)
    for node in proto.graph.node:
        node.name = ""
    onnx.save(proto, tmp_path / "other.onnx")
    found = cpu_graph(tmp_path / "other.onnx", is_whole=True)
    assert "runs as it is" in caplog.text
    assert found == (tmp_path / "other.onnx").read_bytes()
