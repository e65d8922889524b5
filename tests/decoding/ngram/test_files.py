"""N-grams packed into an `.npz`; `tests/lab/training/test_pack_ngrams.py` has what ships."""

import numpy as np
import pytest

from conch.decoding.ngram.files import read_ngrams, read_packed
from conch.decoding.ngram.model import SHIPPED
from conch.wire.errors import ConfigError

# Of words <s>, </s>, a, b: the bigrams <s> a, <s> b, b </s>, in units of half a nat.
ARRAYS = {
    "words": np.frombuffer(b"<s>\n</s>\na\nb", np.uint8),
    "unit": np.array(0.5),
    "log_probs1": np.array([-4, -2], np.float32),
    "log_prob1": np.array([0, 1, 1, 0], np.uint16),
    "backoffs1": np.array([-1, 0], np.float32),
    "backoff1": np.array([0, 1, 1, 1], np.uint16),
    "children2": np.array([2, 0, 0, 1], np.uint32),
    "last2": np.array([[2, 1, 1], [0, 0, 0], [0, 0, 0]], np.uint8),
    "log_probs2": np.array([-3, -1], np.float32),
    "log_prob2": np.array([0, 1, 1], np.uint16),
}


def test_arrays_become_ngrams(tmp_path):
    path = tmp_path / "small.npz"
    np.savez_compressed(path, **ARRAYS)
    table = read_ngrams(path)
    assert table.words == ("<s>", "</s>", "a", "b")
    unigrams, bigrams = table.orders
    assert unigrams.words.tolist() == [[0], [1], [2], [3]]
    assert unigrams.log_probs.tolist() == [-2.0, -1.0, -1.0, -2.0]
    assert unigrams.backoffs.tolist() == [-0.5, 0.0, 0.0, 0.0]
    assert bigrams.words.tolist() == [[0, 2], [0, 3], [3, 1]]
    assert bigrams.log_probs.tolist() == [-1.5, -0.5, -0.5]
    # b | <s> a backs off to b alone.
    assert table.log_probs_of(np.array([[0, 2], [2, 3]])).tolist() == [-1.5, -2.0]


@pytest.mark.parametrize(
    "changed",
    [
        {"log_prob2": np.array([0, 1], np.uint16)},
        {"log_prob2": np.array([0, 1, 9], np.uint16)},
        {"children2": np.array([2, 0, 0, 2], np.uint32)},
        {"children2": np.array([2, 0, 0], np.uint32)},
        {"last2": np.array([[2, 200, 1], [0, 0, 0], [0, 0, 0]], np.uint8)},
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, changed):
    path = tmp_path / "wrong.npz"
    np.savez(path, **{**ARRAYS, **changed})
    with pytest.raises(ConfigError, match=r"wrong\.npz is broken"):
        read_packed(path)


def test_any_flipped_byte_is_refused_or_harmless(tmp_path):
    path = tmp_path / "flipped.npz"
    np.savez_compressed(path, **ARRAYS)
    content = path.read_bytes()
    refused = 0
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        try:
            read_packed(path)
        except ConfigError:
            refused += 1
    assert refused > len(content) / 2


def test_a_file_without_ngrams_is_refused(tmp_path):
    path = tmp_path / "empty.npz"
    np.savez(path, words=ARRAYS["words"], unit=ARRAYS["unit"])
    with pytest.raises(ConfigError, match="holds no n-grams"):
        read_packed(path)


def test_half_a_file_is_refused(tmp_path):
    path = tmp_path / "half.npz"
    path.write_bytes(SHIPPED.read_bytes()[:2_000_000])
    with pytest.raises(ConfigError, match=r"half\.npz is broken"):
        read_ngrams(path)
