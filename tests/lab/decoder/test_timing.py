"""What the decoder benchmark compares is the same task."""

import numpy as np
import pytest
import torch

from conch.decoding.options import CtcSearchOptions
from conch.decoding.vocab import CtcVocab
from conch.families.ngram.arpa import read_ngrams
from lab.decoder.timing import measured, pyctcdecode_times, searches, write_arpa

VOCAB = CtcVocab(("", " ", "a", "b"))
ARPA = """\\data\\
ngram 1=4
ngram 2=1

\\1-grams:
-99\t<s>\t-0.3
-0.9\t</s>
-0.8\ta\t-0.2
-0.7\tb\t-0.25

\\2-grams:
-0.4\t<s> a

\\end\\
"""


def spoken(units: list[int]) -> np.ndarray:
    probs = torch.full((len(units), 4), 0.01)
    probs[torch.arange(len(units)), torch.tensor(units)] = 0.97
    return probs.log().numpy()


def test_the_median_of_the_runs_without_the_first():
    calls = []
    found = measured("nothing", lambda: calls.append(0) or ["text"], 1, runs=3)
    assert (len(calls), found.texts, found.name) == (4, ("text",), "nothing")
    assert found.ms_per_utterance >= 0


def test_every_way_writes_what_was_spoken():
    log_probs = [spoken([2, 1, 3, 0, 3]), spoken([3]), spoken([2, 2, 0, 2])]
    found = searches(log_probs, VOCAB, None, options=CtcSearchOptions(), batch_size=2, runs=1)
    assert [item.name for item in found] == ["greedy", "beam"]
    assert {item.texts for item in found} == {("a bb", "b", "aa")}


def test_pyctcdecode_writes_the_same():
    pytest.importorskip("pyctcdecode")
    log_probs = [spoken([2, 1, 3, 0, 3]), spoken([2, 2, 0, 2])]
    (found,) = pyctcdecode_times(log_probs, VOCAB, options=CtcSearchOptions(), runs=1)
    assert found.texts == ("a bb", "aa")


def test_an_arpa_file_is_written_as_it_was_read(tmp_path):
    (tmp_path / "first.arpa").write_text(ARPA)
    first = read_ngrams(tmp_path / "first.arpa")
    write_arpa(first, tmp_path / "second.arpa")
    second = read_ngrams(tmp_path / "second.arpa")
    assert second.words == first.words
    for one, other in zip(first.orders, second.orders, strict=True):
        assert one.words.tolist() == other.words.tolist()
        np.testing.assert_allclose(one.log_probs, other.log_probs, atol=1e-5)
        np.testing.assert_allclose(one.backoffs, other.backoffs, atol=1e-5)
