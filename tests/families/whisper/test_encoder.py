"""The encoder on real weights."""

import ctranslate2
import numpy as np
import pytest

from conch.component import Row, answers
from conch.families.whisper.config import model_folder
from conch.families.whisper.encoder import WhisperEncoder, WhisperEncoderConfig, window_frames
from conch.wire.errors import AudioError, ConfigError, OptionError


@pytest.fixture(scope="module")
def encoder() -> WhisperEncoder:
    return WhisperEncoder(WhisperEncoderConfig())


@pytest.mark.parametrize(
    ("seconds", "window_s"),
    [(0.01, 15), (10, 15), (10.01, 17.5), (12.5, 17.5), (20, 25), (24.9, 30), (30, 30)],
)
def test_windows_keep_a_margin_and_share_sizes(seconds, window_s):
    assert window_frames(round(seconds * 16_000), WhisperEncoderConfig()) == window_s * 100


def test_equals_another_implementation_of_the_features(encoder, tiger):
    """In a 30 s window, as faster-whisper feeds it to the same weights."""
    features = pytest.importorskip("faster_whisper.feature_extractor").FeatureExtractor()
    silence = np.zeros(30 * 16_000 - len(tiger), np.float32)
    mel = features(np.concatenate([tiger, silence]))[None, :, :3000].astype(np.float32)
    model = ctranslate2.models.Whisper(str(model_folder("")), compute_type="float32")
    expected = np.array(model.encode(ctranslate2.StorageView.from_array(mel)))[0]
    exact = WhisperEncoder(WhisperEncoderConfig(compute_type="float32", min_window_s=30))
    (answer,) = exact([Row({"waveform": tiger})])
    assert answer["encoder_out"].shape == (1500, 384)
    np.testing.assert_allclose(answer["encoder_out"], expected, atol=2e-2)
    assert np.abs(answer["encoder_out"] - expected).mean() < 1e-4


def test_lens_count_the_frames_of_audio(encoder, tiger):
    (answer,) = encoder([Row({"waveform": tiger})])
    assert answer["encoder_out"].shape == (750, 384)
    assert answer["encoder_out"].dtype == np.float32
    assert answer["encoder_out_lens"].dtype == np.int32
    assert answer["encoder_out_lens"].tolist() == [117_200 // 320]


def test_a_batch_answers_each_row_as_if_alone(encoder, tiger):
    waveforms = [tiger[:160], tiger, tiger[40_000:90_000], np.tile(tiger, 3)]
    together = encoder([Row({"waveform": item}) for item in waveforms])
    assert [len(answer["encoder_out"]) for answer in together] == [750, 750, 750, 1375]
    for waveform, answer in zip(waveforms, together, strict=True):
        (alone,) = encoder([Row({"waveform": waveform})])
        np.testing.assert_allclose(answer["encoder_out"], alone["encoder_out"], atol=1e-3)


def test_a_row_may_ask_for_a_window_of_its_own(encoder, tiger):
    asked = [
        # 5 s and 3 s of margin are 8 s: windows are multiples of 2.5 s.
        (80_000, {}, 15),
        (80_000, {"min_window_ms": 7500, "window_margin_ms": 3000}, 10),
        (80_000, {"min_window_ms": 7500}, 10),
        (80_000, {"min_window_ms": 30_000}, 30),
        (80_000, {"min_window_ms": 1000, "window_margin_ms": 0}, 5),
        (16_000, {"min_window_ms": 1000, "window_margin_ms": 0}, 2.5),
        (16_000, {"min_window_ms": 7500}, 7.5),
        (len(tiger), {"min_window_ms": 7500, "window_margin_ms": 3000}, 12.5),
        (16_000, {"window_margin_ms": 30_000}, 30),
    ]
    rows = [Row({"waveform": tiger[:size]}, parameters) for size, parameters, _ in asked]
    for row, answer, (size, _, window_s) in zip(rows, encoder(rows), asked, strict=True):
        assert len(answer["encoder_out"]) / 50 == window_s
        assert answer["encoder_out_lens"].item() == size // 320
        (alone,) = encoder([row])
        np.testing.assert_allclose(answer["encoder_out"], alone["encoder_out"], atol=1e-3)


def test_too_long_or_empty_fails_its_row_alone(encoder, tiger):
    long, empty, good = answers(
        encoder,
        [
            Row({"waveform": np.zeros(30 * 16_000 + 1, np.float32)}),
            Row({"waveform": np.zeros(0, np.float32)}),
            Row({"waveform": tiger}),
        ],
    )
    assert isinstance(long, AudioError) and isinstance(empty, AudioError)
    assert str(long) == ("the encoder takes more than 0 and at most 30 s of audio; sent: 30.0001 s")
    assert str(empty).endswith("sent: 0 s")
    assert good["encoder_out_lens"].tolist() == [366]


@pytest.mark.parametrize(
    ("name", "range_", "values"),
    [
        ("min_window_ms", "1000 to 30000", [0, 999, 30_001, -1, True, 7.5, "7500", "wide"]),
        ("window_margin_ms", "0 to 30000", [-1, 30_001, False, 0.5, "3000"]),
    ],
)
def test_a_bad_window_fails_its_row_alone(encoder, tiger, name, range_, values):
    sent = [Row({"waveform": tiger}, {name: value}) for value in values]
    *bad, good = answers(encoder, [*sent, Row({"waveform": tiger})])
    for value, error in zip(values, bad, strict=True):
        assert isinstance(error, OptionError)
        assert str(error) == f"option '{name}' takes an integer from {range_}; sent: {value!r}"
    assert good["encoder_out_lens"].tolist() == [366]


def test_what_cannot_be_loaded_is_named(tmp_path):
    with pytest.raises(ConfigError, match=f"'{tmp_path}' is not .*: it has no model.bin"):
        WhisperEncoder(WhisperEncoderConfig(model=str(tmp_path)))
    (tmp_path / "model.bin").write_bytes(b"\0" * 100)
    with pytest.raises(ConfigError, match=f"cannot load {tmp_path} on cpu"):
        WhisperEncoder(WhisperEncoderConfig(model=str(tmp_path)))
    with pytest.raises(ConfigError, match="with compute type int3"):
        WhisperEncoder(WhisperEncoderConfig(compute_type="int3"))
    with pytest.raises(ConfigError, match=r"min_window_s must be in \(0, 30\]; is: 31"):
        WhisperEncoder(WhisperEncoderConfig(min_window_s=31))
    with pytest.raises(ConfigError, match="window_step_s must be above 0"):
        WhisperEncoder(WhisperEncoderConfig(window_step_s=0))
