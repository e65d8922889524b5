"""The exported graph against the model, in chunks and as a whole."""

import json

import numpy as np
import pytest
import torch

from conch.decoding.units import Characters
from lab.training.ctc import checkpoint
from lab.training.ctc.model import Cache, CtcModel, CtcModelConfig

onnx = pytest.importorskip("onnx")
# torch's exporter in Python announces its successor.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

TOLERANCE = {"fp32": 1e-4, "fp16": 1e-2, "int8": 0.1}


@pytest.fixture(scope="module")
def model() -> CtcModel:
    torch.manual_seed(0)
    config = CtcModelConfig(vocab_size=29, model_size=256, num_heads=2, num_layers=2)
    return CtcModel(config).eval()


@pytest.mark.parametrize(("weights", "tolerance"), [("fp32", 0), ("fp16", 1e-3), ("int8", 0.02)])
def test_the_weights_of_a_graph_are_those_of_the_model(model, tmp_path, weights, tolerance):
    from lab.training.ctc.export import main
    from lab.training.ctc.imported import load_exported

    saved, path = tmp_path / "model.pt", tmp_path / "model.onnx"
    checkpoint.save(saved, model, Characters())
    main([str(saved), "--out", str(path), "--weights", weights])
    found, units = load_exported(path)
    assert (found.config, units.vocab) == (model.config, Characters.vocab)
    state = found.state_dict()
    for name, value in model.state_dict().items():
        off = (state[name] - value).abs().max() / value.abs().max().clamp_min(1e-9)
        assert off <= tolerance, name


def test_another_graph_has_no_weights_to_train_on(tmp_path):
    from lab.training.ctc.imported import load_exported

    path = tmp_path / "other.onnx"
    for content, message in (
        (onnx.ModelProto().SerializeToString(), "is not a graph of lab.training.ctc.export"),
        (b"no graph at all", "is not an ONNX file, or broken"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"other.onnx {message}"):
            load_exported(path)


@pytest.mark.parametrize("weights", ["fp32", "fp16", "int8"])
def test_graph_equals_the_model(model, tmp_path, weights):
    onnxruntime = pytest.importorskip("onnxruntime")
    from lab.training.ctc.export import main

    saved, path = tmp_path / "model.pt", tmp_path / "model.onnx"
    checkpoint.save(saved, model, Characters())
    main([str(saved), "--out", str(path), "--weights", weights])
    operators = [node.op_type for node in onnx.load(path).graph.node]
    assert operators.count("Int8Product") == (8 if weights == "int8" else 0)  # four in each layer
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    described = session.get_modelmeta().custom_metadata_map
    assert tuple(json.loads(described["vocab"])) == Characters.vocab

    def run(features: torch.Tensor, lens: torch.Tensor, cache: Cache) -> list[np.ndarray]:
        names = ("features", "lens", *Cache._fields)
        values = (features, lens, *cache)
        feed = {name: item.numpy() for name, item in zip(names, values, strict=True)}
        return session.run(None, feed)

    features = torch.randn(3, 96, 80)
    with torch.inference_mode():
        # Full context, of utterances of several lengths.
        lens = torch.tensor([96, 50, 7])
        expected, out_lens = model(features, lens)
        found, *_ = run(features, lens, model.empty_cache(3, 0))
        for row, length in enumerate(out_lens.tolist()):
            np.testing.assert_allclose(
                found[row, :length], expected[row, :length], rtol=0, atol=TOLERANCE[weights]
            )
        # Chunks.
        expected, _ = model(features, torch.tensor([96] * 3), 8, 20)
        cache, chunks = model.empty_cache(3, 20), []
        for start in range(0, 96, 16):
            chunk = features[:, start : start + 16]
            log_probs, *caches = run(chunk, torch.tensor([16] * 3), cache)
            cache = Cache(*map(torch.from_numpy, caches))
            chunks.append(log_probs)
        found = np.concatenate(chunks, 1)
        np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE[weights])
