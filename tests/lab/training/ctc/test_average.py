import torch

from conch.decoding.units import Characters
from lab.training.ctc import checkpoint
from lab.training.ctc.average import main
from lab.training.ctc.model import CtcModel, CtcModelConfig


def test_mean_of_weights(tmp_path):
    config = CtcModelConfig(vocab_size=29, model_size=16, num_heads=2, num_layers=1)
    models = [CtcModel(config) for _ in range(3)]
    paths = [tmp_path / f"{index}.pt" for index in range(3)]
    for model, path in zip(models, paths, strict=True):
        checkpoint.save(path, model, Characters())
    main([str(tmp_path / "mean.pt"), *map(str, paths)])
    mean, units = checkpoint.load_model(tmp_path / "mean.pt")
    assert units.vocab == Characters.vocab
    expected = sum(model.output.weight for model in models) / 3
    torch.testing.assert_close(mean.output.weight, expected)
