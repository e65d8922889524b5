"""The beam by torch, as on a GPU, finds what it finds by numpy."""

import numpy as np
import pytest
from ctc_reference import random_log_probs

from conch.decoding.beam.arrays import first_true, largest, namespace, on_host, placed
from conch.decoding.beam.language import load_ctc_language_model
from conch.decoding.beam.search import CtcSearch
from conch.decoding.options import CtcSearchOptions
from conch.decoding.vocab import CtcVocab
from conch.families.ngram.model import LanguageModelConfig

NUMPY, TORCH = None, "cpu"
ARPA = r"""\data\
ngram 1=5
ngram 2=2

\1-grams:
-99	<s>	-0.3
-0.9	</s>
-0.8	a	-0.2
-0.7	b	-0.25
-1.5	ab

\2-grams:
-0.4	<s> a
-0.35	a b

\end\
"""
OPTIONS = [
    CtcSearchOptions(beam_size=8),
    CtcSearchOptions(beam_size=3),
    CtcSearchOptions(beam_size=8, language_model=True, unit_min_log_prob=-1000),
    CtcSearchOptions(beam_size=5, language_model=True),
    CtcSearchOptions(beam_size=8, language_model=True, prune_history=False),
]


def searched(vocab, path, device):
    model = load_ctc_language_model(LanguageModelConfig(model=str(path)), vocab, device)
    search = CtcSearch(vocab, model, device)
    inputs = [random_log_probs(seed, 30 + 5 * seed, vocab.texts, 3) for seed in range(len(OPTIONS))]
    states = [search.start(options) for options in OPTIONS]
    for start in range(0, 60, 12):
        states = search.advance(states, [item[start : start + 12].numpy() for item in inputs])
        assert namespace(states[0].beam_state.beam.blank).__name__ == (
            "torch" if device else "numpy"
        )
    return [search.nbest(state, 5, is_final) for state in states for is_final in (False, True)]


@pytest.mark.parametrize("texts", [("", " ", "a", "b"), ("", " a", "b", " b", "ab")])
def test_torch_finds_what_numpy_finds(tmp_path, texts):
    path = tmp_path / "tiny.arpa"
    path.write_text(ARPA)
    vocab = CtcVocab(texts)
    by_numpy, by_torch = (searched(vocab, path, device) for device in (NUMPY, TORCH))
    assert any(item.lm_score for found in by_numpy for item in found)
    for one, other in zip(by_numpy, by_torch, strict=True):
        assert [item.units for item in one] == [item.units for item in other]
        assert [item.frames for item in one] == [item.frames for item in other]
        for name in ("score", "am_score", "lm_score"):
            assert [getattr(item, name) for item in one] == pytest.approx(
                [getattr(item, name) for item in other]
            )


@pytest.mark.parametrize("device", [NUMPY, TORCH])
def test_the_largest_of_each_row_come_first_and_are_counted_through(device):
    values = placed(np.array([[[1.0, 4.0, 2.0, 3.0]], [[8.0, 5.0, 7.0, 6.0]]]), device)
    best, places = largest(values, 3)
    assert on_host(best).tolist() == [[[4, 3, 2]], [[8, 7, 6]]]
    assert on_host(places).tolist() == [[[1, 3, 2]], [[4, 6, 7]]]


@pytest.mark.parametrize("device", [NUMPY, TORCH])
def test_the_first_true_of_each_row(device):
    flags = placed(np.array([[False, True, True], [False, False, False]]), device)
    assert on_host(first_true(flags)).tolist() == [1, 0]
