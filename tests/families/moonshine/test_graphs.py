"""The graphs against those of the package, which ONNX Runtime runs as they come."""

import numpy as np
import onnxruntime

from conch.families.moonshine import weights
from conch.families.moonshine.declaration import PACKAGE
from conch.families.moonshine.network import MoonshineDecoder, Step
from conch.families.moonshine.tokens import START, MoonshineTokens
from conch.packaged import packaged

TEXT = "Tiger, Tiger, burning bright in the forest of the night."


def package_session(name: str) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(packaged(PACKAGE, weights.MODELS, {}) / name)


def test_the_encoder_is_that_of_the_package(tiger, exactly_encoded, encoded):
    [expected] = package_session(weights.ENCODER).run(None, {"input_values": tiger[None]})
    np.testing.assert_allclose(exactly_encoded["encoder_out"], expected[0], atol=1e-3)
    found = encoded["encoder_out"]
    norms = np.linalg.norm(found, axis=-1) * np.linalg.norm(expected[0], axis=-1)
    assert np.median((found * expected[0]).sum(axis=-1) / norms) > 0.99


def test_log_probabilities_are_those_of_the_package(exact_folder, exactly_encoded):
    """All at once, token by token, and with rows that change their order."""
    tokens = MoonshineTokens(exact_folder / weights.TOKENIZER_FILE)
    ids = [START, *tokens.encode(TEXT)]
    expected = package_log_probs(ids, exactly_encoded["encoder_out"])[: len(ids) - 1]
    decoder, hidden = MoonshineDecoder(exact_folder, 1), exactly_encoded["encoder_out"]

    (whole,) = decoder.advance([Step(decoder.begin(hidden), [ids[:-1]], [0], targets=[ids[1:]])])
    np.testing.assert_allclose(whole.target_log_probs[0], expected, atol=1e-3)

    hypotheses = decoder.begin(hidden)
    decoder.advance([Step(hypotheses, [[ids[0]]], [0])])
    others = tokens.encode("He said nothing at all about it and went home through the rain again.")
    parents, found, attention = [0, 0], [], []
    for at in range(1, len(ids) - 1):
        here = at % 2
        rows = [[others[at]], [others[at]]]
        rows[here] = [ids[at]]
        (said,) = decoder.advance([Step(hypotheses, rows, parents, targets=[[ids[at + 1]]] * 2)])
        found.append(said.target_log_probs[here, 0])
        attention.append(said.attention[here, 0])
        # The text is in the other row at the next step.
        parents = [here, here]
    np.testing.assert_allclose(found, expected[1:], atol=1e-3)
    np.testing.assert_allclose(attention, whole.attention[0, 1:], atol=1e-3)


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
