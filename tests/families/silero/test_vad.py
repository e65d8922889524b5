"""The VAD on real weights: chunked = whole = the stepwise model of the same package."""

import subprocess
import sys

import numpy as np
import onnxruntime
import pytest

from conch.component import Row, answers
from conch.families.silero.vad import SileroConfig, SileroVad, model_path
from conch.wire.errors import ConfigError, InvalidRequestError


@pytest.fixture(scope="module")
def vad() -> SileroVad:
    return SileroVad(SileroConfig())


def stepwise(waveform: np.ndarray) -> np.ndarray:
    """Speech probabilities by the package's other model, one frame at a time."""
    path = model_path("").with_name("silero_vad.onnx")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options)
    state = np.zeros((2, 1, 128), np.float32)
    samples = np.concatenate([np.zeros(64, np.float32), waveform])
    samples = np.pad(samples, (0, -len(waveform) % 512))
    probs = []
    for start in range(0, len(samples) - 64, 512):
        frame = samples[None, start : start + 576]
        feed = {"input": frame, "state": state, "sr": np.array(16_000)}
        prob, state = session.run(None, feed)
        probs.append(prob[0, 0])
    return np.array(probs)


def test_equals_the_stepwise_model(vad, tiger):
    (answer,) = vad([Row({"waveform": tiger})])
    assert answer["speech_probs"].shape == (229,)
    np.testing.assert_allclose(answer["speech_probs"], stepwise(tiger), atol=1e-4)
    assert answer["speech_probs"].max() > 0.99
    assert answer["speech_probs"].min() < 0.01


def test_chunked_equals_whole(vad, tiger):
    rng = np.random.default_rng(3)
    (whole,) = vad([Row({"waveform": tiger})])
    for pieces in (2, 5, 20):
        cuts = np.sort(rng.choice(np.arange(1, 228), pieces - 1, replace=False)) * 512
        probs, state = [], {}
        for chunk in np.split(tiger, cuts):
            (answer,) = vad([Row({"waveform": chunk, **state})])
            probs.append(answer["speech_probs"])
            state = {"state": answer["state"]}
        np.testing.assert_allclose(np.concatenate(probs), whole["speech_probs"], atol=1e-5)
        np.testing.assert_allclose(state["state"], whole["state"], atol=1e-4)


def test_blocks_equal_whole(tiger):
    (few,) = SileroVad(SileroConfig(block_frames=7))([Row({"waveform": tiger})])
    (many,) = SileroVad(SileroConfig(block_frames=10_000))([Row({"waveform": tiger})])
    np.testing.assert_allclose(few["speech_probs"], many["speech_probs"], atol=1e-5)


def test_no_samples_give_no_frames_and_keep_the_state(vad):
    state = np.arange(320, dtype=np.float32)
    (answer,) = vad([Row({"waveform": np.zeros(0, np.float32), "state": state})])
    assert answer["speech_probs"].shape == (0,)
    np.testing.assert_array_equal(answer["state"], state)


def test_a_waveform_is_two_minutes_at_most(vad):
    longest = np.zeros(120 * 16_000, np.float32)
    sent = [Row({"waveform": longest}), Row({"waveform": np.append(longest, [0])})]
    answer, error = answers(vad, sent)
    assert answer["speech_probs"].shape == (3750,)
    assert str(error).startswith("input 'waveform' takes at most 120 s of audio; sent: 120")


def test_a_wrong_state_fails_its_row_alone(vad, tiger):
    bad = Row({"waveform": tiger, "state": np.zeros(7, np.float32)})
    error, answer = answers(vad, [bad, Row({"waveform": tiger[:1000]})])
    assert isinstance(error, InvalidRequestError)
    assert str(error) == ("input 'state' must be what the last call returned, 320 values; sent: 7")
    assert answer["speech_probs"].shape == (2,)


def test_a_missing_or_wrong_model_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"the VAD model .*nowhere\.onnx does not exist"):
        SileroVad(SileroConfig(model=str(tmp_path / "nowhere.onnx")))
    broken = tmp_path / "broken.onnx"
    broken.write_text("not a network")
    with pytest.raises(ConfigError, match=r"cannot load the VAD model .*broken\.onnx"):
        SileroVad(SileroConfig(model=str(broken)))
    stepwise_model = model_path("").with_name("silero_vad.onnx")
    with pytest.raises(ConfigError, match=r"it takes .* in place of input, h and c"):
        SileroVad(SileroConfig(model=str(stepwise_model)))


def test_loading_does_not_import_torch():
    code = (
        "import sys; from conch.families.silero.vad import SileroConfig, SileroVad;"
        "SileroVad(SileroConfig()); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
