import numpy as np
import pytest
from ctc_paths import log_probs_of

from conch.component import Row
from conch.decoding.ctc_decoder import CtcDecoder, CtcDecoderConfig
from conch.errors import ConfigError, InvalidRequestError


@pytest.fixture(scope="module")
def decoder() -> CtcDecoder:
    return CtcDecoder(CtcDecoderConfig())


def row(log_probs: np.ndarray, length: int | None = None) -> Row:
    lens = np.array([len(log_probs) if length is None else length], np.int32)
    return Row({"log_probs": log_probs, "log_probs_lens": lens})


def test_text_and_words(decoder):
    (answer,) = decoder([row(log_probs_of("-a--b ccc-c--"))])
    assert answer["hypotheses"].tolist() == [b"ab cc"]
    assert answer["words"].tolist() == [b"ab", b"cc"]
    assert answer["num_words"].tolist() == [2]
    np.testing.assert_allclose(answer["word_starts"], [0.02, 0.12])


def test_padding_is_not_read(decoder):
    log_probs = log_probs_of("-a--b ccc-c--")
    (short,) = decoder([row(log_probs, 5)])
    assert short["hypotheses"].tolist() == [b"ab"]


def test_what_cannot_be_decoded_fails_alone(decoder):
    good = log_probs_of("ab")
    wide, nan = np.zeros((4, 30), np.float32), np.full((4, 29), np.nan, np.float32)
    answers = decoder([row(wide), row(good), row(nan), row(good, 3)])
    assert answers[1]["hypotheses"].tolist() == [b"ab"]
    messages = [
        str(item) if isinstance(item, InvalidRequestError) else None
        for item in (answers[0], answers[2], answers[3])
    ]
    assert messages == [
        "log_probs takes [frames, 29] with at least log_probs_lens frames; sent: [4, 30] and 4",
        "log_probs holds values that are not numbers",
        "log_probs takes [frames, 29] with at least log_probs_lens frames; sent: [2, 29] and 3",
    ]


def test_a_missing_model_is_named():
    with pytest.raises(ConfigError, match=r"nowhere\.onnx does not exist"):
        CtcDecoder(CtcDecoderConfig(model="/nowhere.onnx"))
