"""Weights from the files of packages, and the graphs that are made of them and kept."""

from pathlib import Path

import jiwer
import numpy as np
import onnx
import onnxruntime
from exact_moonshine import write_exact_graphs
from onnx import TensorProto, helper, numpy_helper
from whisper_normalizer.english import EnglishTextNormalizer

from conch.component import Row
from conch.families.moonshine import FILES, GRAPH_FILES, weights
from conch.families.moonshine.decoder import DecoderComponent, MoonshineDecoderConfig
from conch.families.moonshine.network import EncoderComponent, MoonshineConfig

MICROSOFT = "com.microsoft"
TIGER = (
    "Tiger Tiger, burning bright in the forest of the night. What immortal hand or eye dare frame "
    "thy fearful symmetry."
)


def saved(path: Path, nodes: list[onnx.NodeProto], arrays: dict[str, np.ndarray]) -> Path:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "model",
        [value("in", TensorProto.FLOAT, [1, 3])],
        [value("out", TensorProto.FLOAT, [1, 2])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), str(path))
    return path


def test_an_integer_zero_point_goes_before_the_scale(tmp_path):
    """As ONNX Runtime itself computes, whose answers tiny's files are made for."""
    rng = np.random.default_rng(0)
    integers, zero = rng.integers(0, 256, (3, 2), np.uint8), np.array(131, np.uint8)
    scale, bias = np.array(0.03, np.float32), np.array([0.5, -2], np.float32)
    name, of_bias = "onnx::MatMul_7_merged_1", "model.decoder.layers.0.mlp.fc1.bias_merged_0"
    parts = [f"{name}_{part}" for part in ("quantized", "scale", "zero_point")]
    node = helper.make_node(
        "DynamicQuantizeMatMul",
        ["in", *parts, of_bias],
        ["out"],
        "/model/decoder/layers.0/mlp/fc1/MatMul_quant",
        domain=MICROSOFT,
    )
    arrays = {**dict(zip(parts, (integers, scale, zero), strict=True)), of_bias: bias}
    path = saved(tmp_path / "tiny.onnx", [node], arrays)
    found = weights.read_weights(path)
    assert found.keys() == {"layers.0.mlp.fc1", "layers.0.mlp.fc1.bias"}
    given = np.array([[0.0, 1.0, 2.55]], np.float32)  # what eight bits hold
    [expected] = onnxruntime.InferenceSession(path).run(None, {"in": given})
    weight, added = found["layers.0.mlp.fc1"], found["layers.0.mlp.fc1.bias"]
    np.testing.assert_allclose(given @ weight + added, expected, atol=1e-4)


def test_a_zero_point_that_is_a_float_is_added_behind_the_scale(tmp_path):
    integers = np.array([[-128, 127], [0, 5], [7, 9]], np.int8)
    name = "onnx::MatMul_9"
    arrays = {
        f"{name}_quantized": integers,
        f"{name}_scale": np.array(0.5, np.float32),
        f"{name}_zero_point": np.array(0.25, np.float32),
    }
    cast, mul, add = (f"{name}_{part}_tensor" for part in ("cast", "mul", "add"))
    nodes = [
        helper.make_node("Cast", [f"{name}_quantized"], [cast], to=TensorProto.FLOAT),
        helper.make_node("Mul", [cast, f"{name}_scale"], [mul]),
        helper.make_node("Add", [mul, f"{name}_zero_point"], [add]),
        helper.make_node("MatMul", ["in", add], ["out"], "/layers.3/self_attn/dense/MatMul"),
    ]
    path = saved(tmp_path / "base.onnx", nodes, arrays)
    found = weights.read_weights(path)
    assert found.keys() == {"layers.3.self_attn.o_proj"}
    [expected] = onnxruntime.InferenceSession(path).run(None, {"in": np.ones((1, 3), np.float32)})
    np.testing.assert_allclose(found["layers.3.self_attn.o_proj"].sum(axis=0), expected[0])


def test_tiny_hears_speech(tiny_source, tiger, tmp_path):
    """By the folder of the package's files, and as the encoder of the package does."""
    (encoded,) = EncoderComponent(MoonshineConfig(model=str(tiny_source)))(
        [Row({"waveform": tiger})]
    )
    decoder = DecoderComponent(MoonshineDecoderConfig(model=str(tiny_source)))
    (answer,) = decoder([Row(encoded, {"beam_size": 5, "align": True})])
    text = answer["hypotheses"][0].decode()
    normalized = EnglishTextNormalizer()
    assert jiwer.wer(normalized(TIGER), normalized(text)) <= 0.2
    assert " ".join(word.decode() for word in answer["words"]) == text

    write_exact_graphs(tiny_source, tmp_path / "exact")
    graph = onnxruntime.InferenceSession(tmp_path / "exact" / "encoder.onnx")
    [[found]] = graph.run(None, {"waveform": tiger[None]})
    given = {"input_values": tiger[None], "attention_mask": np.ones((1, len(tiger)), np.int64)}
    session = onnxruntime.InferenceSession(tiny_source / weights.ENCODER)
    [[expected]] = session.run(None, given)
    norms = np.linalg.norm(found, axis=-1) * np.linalg.norm(expected, axis=-1)
    # The package's own is in int8.
    assert np.median((found * expected).sum(axis=-1) / norms) > 0.99


def test_a_damaged_graph_is_made_again(tmp_path, monkeypatch, caplog):
    def write(source: Path, folder: Path) -> None:
        folder.mkdir()
        for name in GRAPH_FILES[:-1]:
            (folder / name).write_bytes(b"a graph")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(weights, "write_graphs", write)
    for name in FILES:
        (tmp_path / name).write_bytes(name.encode())
    folder = weights.moonshine_folder(str(tmp_path))
    assert weights.moonshine_folder(str(folder)) == folder, "its own graphs are as they are"
    (folder / "step_1.onnx").write_bytes(b"a groph")
    assert weights.moonshine_folder(str(tmp_path)) == folder
    assert (folder / "step_1.onnx").read_bytes() == b"a graph"
    assert "is damaged: step_1.onnx" in caplog.text
