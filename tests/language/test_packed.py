"""N-grams packed into an `.npz`; `tests/training/test_pack_ngrams.py` has what ships."""

import numpy as np
import pytest

from conch.errors import ConfigError
from conch.language.arpa import read_ngrams
from conch.language.ngram import SHIPPED
from conch.language.packed import read_packed

# Of words <s>, </s>, a, b: the bigrams <s> a, <s> b, b </s>, in units of half a nat.
ARRAYS = {
    "words": np.frombuffer(b"<s>\n</s>\na\nb", np.uint8),
    "unit": np.array(0.5),
    "log_probs1": np.float32([-4, -2]),
    "log_prob1": np.uint16([0, 1, 1, 0]),
    "backoffs1": np.float32([-1, 0]),
    "backoff1": np.uint16([0, 1, 1, 1]),
    "children2": np.uint32([2, 0, 0, 1]),
    "last2": np.uint8([[2, 1, 1], [0, 0, 0], [0, 0, 0]]),
    "log_probs2": np.float32([-3, -1]),
    "log_prob2": np.uint16([0, 1, 1]),
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
        {"log_prob2": np.uint16([0, 1])},
        {"log_prob2": np.uint16([0, 1, 9])},
        {"children2": np.uint32([2, 0, 0, 2])},
        {"children2": np.uint32([2, 0, 0])},
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, changed):
    path = tmp_path / "wrong.npz"
    np.savez(path, **{**ARRAYS, **changed})
    with pytest.raises(ConfigError, match=r"wrong\.npz is broken"):
        read_packed(path)


def test_half_a_file_is_refused(tmp_path):
    path = tmp_path / "half.npz"
    path.write_bytes(SHIPPED.read_bytes()[:2_000_000])
    with pytest.raises(ConfigError, match=r"half\.npz is broken"):
        read_ngrams(path)
