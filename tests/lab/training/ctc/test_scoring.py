"""Evaluation of a checkpoint and of its exported graph."""

import numpy as np
import pytest
import torch

from conch.decoding.units import Characters
from lab.training.ctc import checkpoint
from lab.training.ctc.model import CtcModel, CtcModelConfig
from lab.training.ctc.scoring import ExportedModel, log_probs_of


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("chunk", "left"), [(0, 0), (16, 40)])
def test_exported_graph_gives_the_same(tmp_path, chunk, left):
    pytest.importorskip("onnx")
    from lab.training.ctc.export import main

    torch.manual_seed(0)
    model = CtcModel(CtcModelConfig(vocab_size=29, model_size=64, num_heads=2)).eval()
    saved, path = tmp_path / "model.pt", tmp_path / "model.onnx"
    checkpoint.save(saved, model, Characters())
    main([str(saved), "--out", str(path), "--weights", "fp32"])
    exported = ExportedModel(path)
    assert exported.units.vocab == Characters.vocab
    rng = np.random.default_rng(0)
    waveforms = [rng.standard_normal(size).astype(np.float32) for size in (16_000, 9_000, 30_001)]
    expected = log_probs_of(model, waveforms, chunk_frames=chunk, left_frames=left)
    found = log_probs_of(exported, waveforms, chunk_frames=chunk, left_frames=left)
    for ours, theirs, waveform in zip(found, expected, waveforms, strict=True):
        assert ours.shape == theirs.shape
        assert len(ours) >= len(waveform) / 320
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-3)
