"""A training of seconds: it learns, and it goes on where it stopped."""

import contextlib
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from conch.decoding.units import Characters
from lab.training.ctc import checkpoint
from lab.training.ctc.augment import MASKS, AugmentConfig, augmented, drawn_masks
from lab.training.ctc.data import Batches, Waveforms, utterances_of
from lab.training.ctc.train import main
from lab.training.ctc.trainer import TrainerConfig, drawn_context, learning_rates, with_masks

MANIFEST = Path(__file__).parents[3] / "data" / "manifest.tsv"


@dataclass(frozen=True)
class Run:
    """A training that has ended."""

    folder: Path
    said: str
    """On standard error."""


def arguments(out: Path) -> list[str]:
    """Of a training on the recordings of the tests, without augmentation."""
    return [
        *("--manifest", str(MANIFEST), "--out", str(out)),
        *("--batch-s", "15", "--output-only-steps", "10", "--output-rate", "5e-3"),
        *("--augment", "none", "--workers", "0", "--no-bf16", "--device", "cpu"),
        *("--checkpoint-minutes", "0.02", "--evaluate-minutes", "100"),
    ]


@pytest.fixture
def options(tmp_path) -> list[str]:
    return arguments(tmp_path / "run")


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("trained")
    with contextlib.redirect_stderr(io.StringIO()) as said:
        main([*arguments(folder), "--epochs", "5"])
    return Run(folder, said.getvalue())


def losses(folder: Path) -> list[float]:
    return checkpoint.load(checkpoint.checkpoints(folder)[-1])["losses"]


def test_learns(trained):
    found = losses(trained.folder)
    assert np.mean(found[-3:]) < 0.5 * np.mean(found[:3])
    assert "dev WER, greedy" in trained.said
    model, units = checkpoint.load_model(trained.folder / checkpoint.FINAL)
    assert units.vocab == Characters.vocab
    assert all(value.isfinite().all() for value in model.state_dict().values())


@pytest.mark.nightly
def test_resumes_exactly(options, tmp_path):
    main([*options, "--epochs", "2", "--checkpoint-minutes", "0"])
    folder = tmp_path / "run"
    expected = losses(folder)
    weights = checkpoint.load(checkpoint.checkpoints(folder)[-1])["model"]
    newest = checkpoint.checkpoints(folder)[-1]
    newest.unlink()  # as if interrupted before it
    main([*options, "--epochs", "2", "--checkpoint-minutes", "0"])
    assert losses(folder) == pytest.approx(expected)
    for name, value in checkpoint.load(newest)["model"].items():
        torch.testing.assert_close(value, weights[name])


@pytest.mark.nightly
def test_starts_from_a_checkpoint(trained, options, tmp_path):
    main([*options, "--epochs", "1", "--init", str(trained.folder / checkpoint.FINAL)])
    assert losses(tmp_path / "run")[0] < 0.7 * losses(trained.folder)[0]


@pytest.mark.nightly
def test_other_units_take_over_the_encoder(trained, options, tmp_path):
    init = trained.folder / checkpoint.FINAL
    other = [*options, "--epochs", "1", "--units", "40", "--output-only-steps", "99"]
    main([*other, "--init", str(init)])
    first, _ = checkpoint.load_model(init)
    second, units = checkpoint.load_model(tmp_path / "run" / checkpoint.FINAL)
    assert (len(units.vocab), units.stack) == (41, 2)
    torch.testing.assert_close(second.layers.state_dict(), first.layers.state_dict())
    assert second.output.weight.shape == (41, 2 * first.output.weight.shape[1])


def test_batches_hold_every_utterance_once_an_epoch(tmp_path):
    utterances = utterances_of(MANIFEST, ["train"])
    waveforms = Waveforms(utterances, tmp_path)
    batches = Batches(utterances, waveforms, Characters(), batch_s=15, seed=1, augment=None)
    epochs = [
        [batches[epoch * batches.per_epoch + i] for i in range(batches.per_epoch)]
        for epoch in (0, 1)
    ]
    for epoch in epochs:
        assert sum(len(batch.lens) for batch in epoch) == len(utterances)
        assert all(batch.features.shape[0] * batch.features.shape[1] < 1500 for batch in epoch)
        assert all(batch.features.shape[1] % 2 == 0 for batch in epoch)
    again = batches[0]
    torch.testing.assert_close(again.features, epochs[0][0].features)


def test_cache_holds_the_recordings(tmp_path):
    utterances = utterances_of(MANIFEST)
    for _ in range(2):  # filled, then found
        waveforms = Waveforms(utterances, tmp_path)
        expected = soundfile.read(utterances[3].path, dtype="float32")[0]
        np.testing.assert_allclose(waveforms[3], expected.clip(-1, 1), atol=2 / 32767)


def test_masks_alone_leave_the_waveform_as_it_is():
    speech = np.random.default_rng(0).standard_normal(32_000).astype(np.float32) * 0.1
    for seed in range(8):
        found = augmented(speech, lambda: speech, MASKS, np.random.default_rng(seed))
        np.testing.assert_array_equal(found, speech)


def test_augmentation_is_decided_by_its_seed():
    rng = np.random.default_rng(0)
    speech = rng.standard_normal(32_000).astype(np.float32) * 0.1
    config = AugmentConfig(reverb_chance=0.5, noise_chance=0.5, babble_chance=0.5)
    for seed in range(8):
        first, second = (
            augmented(speech, lambda: speech, config, np.random.default_rng(seed)) for _ in "ab"
        )
        np.testing.assert_array_equal(first, second)
        assert first.dtype == np.float32
        assert 0.85 < len(first) / len(speech) < 1.15
        assert np.abs(first).max() <= 1.0


def test_masks_hide_bands_and_spans_at_the_mean_of_the_utterance():
    features = torch.randn(2, 300, 80, generator=torch.Generator().manual_seed(0))
    lens = torch.tensor([300, 200])
    features[1, 200:] = 0
    config = AugmentConfig(max_freq_mask=27, time_masks_per_s=1.5, max_time_mask=32)
    bands, spans = drawn_masks([300, 200], 80, config, np.random.default_rng(2))
    assert 0 < bands.mean() < 0.7
    assert 0 < spans[1, :200].mean() < 0.5
    assert not spans[1, 200:].any()
    found = with_masks(features, lens, bands, spans)
    for row, length in enumerate(lens.tolist()):
        hidden = bands[row] | spans[row, :length, None]
        kept = found[row, :length].numpy()
        expected = features[row, :length].numpy()
        np.testing.assert_array_equal(kept[~hidden], expected[~hidden])
        np.testing.assert_allclose(kept[hidden], expected.mean(), atol=1e-6)


def test_contexts_are_drawn_from_their_ranges():
    config = TrainerConfig(out=Path("unused"), epochs=1)
    drawn = [drawn_context(config, np.random.default_rng(seed)) for seed in range(400)]
    chunks = [chunk for chunk, _ in drawn if chunk]
    assert 140 < len(chunks) < 260
    assert min(chunks) == config.chunk_frames[0]
    assert config.chunk_frames[1] * 0.9 < max(chunks) <= config.chunk_frames[1]


def test_rates():
    config = TrainerConfig(out=Path("unused"), epochs=1)
    assert learning_rates(config, 0, 0.0) == (0.0, config.first_rate)
    first = config.output_only_steps
    encoder, output = learning_rates(config, first, 0.0)
    assert encoder == pytest.approx(config.peak_rate / config.warm_up_steps)
    assert output == config.output_rate
    risen = learning_rates(config, first + config.warm_up_steps, 0.5)
    assert risen == pytest.approx((config.peak_rate / 2, config.output_rate / 2))
    assert learning_rates(config, 10**6, 1.0) == pytest.approx((0.0, 0.0))
