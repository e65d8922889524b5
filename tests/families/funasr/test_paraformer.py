"""The component, and what it refuses."""

import funasr_toys
import numpy as np
import pytest

from conch.component import Row
from conch.families.funasr.paraformer import Paraformer, ParaformerConfig, times_of
from conch.wire.errors import AudioError, ConfigError, OptionError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "parameter 'model' is empty: conch serve --paraformer FOLDER sets it"),
        ({"model": ".", "precision": "int4"}, "'precision' takes float32 or int8; is: 'int4'"),
        ({"model": "."}, r"^\. holds no paraformer: it lacks model\.onnx"),
    ],
)
def test_a_config_that_is_wrong(settings, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        Paraformer(ParaformerConfig(**settings))


def test_a_row_that_is_refused(tmp_path):
    folder, _ = funasr_toys.paraformer(tmp_path)
    component = Paraformer(ParaformerConfig(model=str(folder), language="zh"))
    tone = np.zeros(16_000, np.float32)
    with pytest.raises(OptionError, match=r"'language' takes auto or zh with .*; sent: 'e"):
        component([Row({"waveform": tone}, {"language": "en"})])
    with pytest.raises(AudioError, match="at most 40 s of audio; sent: 41 s"):
        component([Row({"waveform": np.zeros(41 * 16_000, np.float32)})])
    (found,) = component([Row({"waveform": tone}, {"language": "zh"})])
    assert found["words"].size == found["word_starts"].size == found["word_confidences"].size


def test_a_unit_lasts_until_the_next_but_not_through_a_pause():
    peaks = np.zeros(100, np.float32)
    peaks[[5, 20, 95]] = 1
    assert times_of(2, peaks, 1.95) == [(0.1, 0.4), (0.4, 1.0)]
    assert times_of(2, peaks, 0.5) == [(0.1, 0.4), (0.4, 0.5)]


def test_without_a_peak_for_each_units_share_the_audio():
    assert times_of(2, np.ones(2, np.float32), 3.0) == [(0.0, 1.5), (1.5, 3.0)]
    assert times_of(0, np.zeros(9, np.float32), 3.0) == []
