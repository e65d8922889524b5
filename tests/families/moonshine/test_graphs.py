"""The graphs against those of the package, which ONNX Runtime runs as they come."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from conch.component import Row
from conch.families.moonshine import GRAPH_FILES, PACKAGE, START, weights
from conch.families.moonshine.decoder import MoonshineTokens
from conch.families.moonshine.network import DecoderStep, MoonshineDecoder
from conch.packaged import packaged

TEXT = "Tiger, Tiger, burning bright in the forest of the night."


def package_session(name: str) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(packaged(PACKAGE, weights.MODELS, {}) / name)


def test_the_encoder_is_that_of_the_package(tiger, exactly_encoded, encoded):
    [expected] = package_session(weights.ENCODER).run(None, {"input_values": tiger[None]})
    np.testing.assert_allclose(exactly_encoded["encoder_out"], expected[0], atol=1e-3)
    near = cosines(encoded["encoder_out"], expected[0])
    assert np.median(near) > 0.997
    assert np.percentile(near, 5) > 0.98


def test_quiet_speech_stays_near_what_it_is_behind_loud_speech(encoder, exact_encoder, tiger):
    """A convolution with one integer scale for the audio would round it away."""
    waveform = np.concatenate([tiger, 0.03 * tiger])
    [found], [expected] = (each([Row({"waveform": waveform})]) for each in (encoder, exact_encoder))
    quiet = slice(len(found["encoder_out"]) // 2, None)
    near = cosines(found["encoder_out"][quiet], expected["encoder_out"][quiet])
    assert np.median(near) > 0.99


@pytest.mark.parametrize("spoken", [0, 16000])
def test_digital_silence_has_finite_hidden_states(encoder, exact_encoder, tiger, spoken):
    """Frames of zeros have no scale to divide by."""
    waveform = np.concatenate([tiger[:spoken], np.zeros(48000, np.float32)])
    [found], [expected] = (each([Row({"waveform": waveform})]) for each in (encoder, exact_encoder))
    assert np.isfinite(found["encoder_out"]).all()
    assert np.median(cosines(found["encoder_out"], expected["encoder_out"])) > 0.99


@pytest.mark.parametrize("name", GRAPH_FILES[:-1])
def test_no_product_saturates(name):
    """Two products of inputs up to 255 are added in 16 bits on CPUs without VNNI."""
    model = onnx.load(weights.moonshine_folder("") / name)
    arrays = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    factors = [node.input[1] for node in model.graph.node if "MatMul" in node.op_type]
    integers = [arrays[name].astype(np.int32) for name in factors if name in arrays]
    assert integers
    assert all(np.abs(array[::2] + array[1::2]).max() * 255 < 1 << 15 for array in integers)


def test_log_probabilities_are_those_of_the_package(exact_folder, exactly_encoded):
    """All at once, token by token, and with rows that change their order."""
    tokens = MoonshineTokens(exact_folder / weights.TOKENIZER_FILE)
    ids = [START, *tokens.encode(TEXT)]
    expected = package_log_probs(ids, exactly_encoded["encoder_out"])[: len(ids) - 1]
    decoder, hidden = MoonshineDecoder(exact_folder, 1), exactly_encoded["encoder_out"]

    (whole,) = decoder.advance(
        [DecoderStep(decoder.begin(hidden), [ids[:-1]], [0], targets=[ids[1:]])]
    )
    np.testing.assert_allclose(whole.target_log_probs[0], expected, atol=1e-3)

    hypotheses = decoder.begin(hidden)
    decoder.advance([DecoderStep(hypotheses, [[ids[0]]], [0])])
    others = tokens.encode("He said nothing at all about it and went home through the rain again.")
    parents, found, attention = [0, 0], [], []
    for at in range(1, len(ids) - 1):
        here = at % 2
        rows = [[others[at]], [others[at]]]
        rows[here] = [ids[at]]
        (said,) = decoder.advance(
            [DecoderStep(hypotheses, rows, parents, targets=[[ids[at + 1]]] * 2)]
        )
        found.append(said.target_log_probs[here, 0])
        attention.append(said.attention[here, 0])
        # The text is in the other row at the next step.
        parents = [here, here]
    np.testing.assert_allclose(found, expected[1:], atol=1e-3)
    np.testing.assert_allclose(attention, whole.attention[0, 1:], atol=1e-3)


def cosines(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(found, axis=-1) * np.linalg.norm(expected, axis=-1)
    return (found * expected).sum(axis=-1) / norms


def package_log_probs(ids: list[int], hidden: np.ndarray) -> np.ndarray:
    """Return the log probability of each token after the first, by the package's decoder."""
    session = package_session(weights.DECODER)
    past = {
        item.name: np.zeros((1, item.shape[1], 0, item.shape[3]), np.float32)
        for item in session.get_inputs()
        if item.name.startswith("past_key_values")
    }
    given = {
        "input_ids": np.array([ids], np.int64),
        "encoder_hidden_states": hidden[None],
        "use_cache_branch": np.array([False]),
    }
    logits = session.run(["logits"], {**given, **past})[0][0].astype(np.float64)
    log_probs = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
    return log_probs[np.arange(len(ids) - 1), ids[1:]]
