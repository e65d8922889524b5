"""N-grams read from files and scored as arrays, against the scores of sentences."""

import math
import random

import numpy as np
import pytest

from conch.decoding.beam.ngram_arrays import EMPTY_HISTORY, ngram_arrays, score_words
from conch.language.arpa import read_ngrams
from conch.language.ngram import SHIPPED, NgramModel, ngram_lookup

TINY = r"""\data\
ngram 1=5
ngram 2=3
ngram 3=1

\1-grams:
-1.0	<s>	-0.3
-0.9	</s>
-0.8	a	-0.2
-0.7	b	-0.25
-1.5	c	-0.1

\2-grams:
-0.4	<s> a	-0.15
-0.35	a b	-0.05
-0.5	b </s>

\3-grams:
-0.2	<s> a b

\end\
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    path = tmp_path_factory.mktemp("ngram") / "tiny.arpa"
    path.write_text(TINY)
    return path


def scored(ngrams, tables, sentences):
    """Return the scores of the words of sentences of one length, side by side."""
    ids = {word: index for index, word in enumerate(ngrams.words)}
    state = np.full(len(sentences), 1 + ids["<s>"])
    columns = []
    for words in zip(*sentences, strict=True):
        word = np.array([ids.get(item, -1) for item in words])
        score, state = score_words(tables, state, word)
        columns.append(score.tolist())
    return list(zip(*columns, strict=True)), state


def test_backoff_by_hand(tiny):
    ngrams = read_ngrams(tiny)
    tables = ngram_arrays(ngrams, -9.0)
    sentence = ["a", "b", "c", "x", "b", "</s>"]
    (scores,), _ = scored(ngrams, tables, [sentence])
    ten = math.log(10)
    assert scores == pytest.approx(
        [-0.4 * ten, -0.2 * ten, (-0.05 - 0.25 - 1.5) * ten, -9.0, -0.7 * ten, -0.5 * ten]
    )


def test_after_an_unknown_word_there_is_no_history(tiny):
    tables = ngram_arrays(read_ngrams(tiny), -9.0)
    _, state = score_words(tables, np.array([2]), np.array([-1]))
    assert state.tolist() == [EMPTY_HISTORY]


@pytest.mark.parametrize("seed", range(3))
def test_the_shipped_trigram_scores_words_as_it_does_sentences(seed):
    ngrams = read_ngrams(SHIPPED)
    model = NgramModel(ngram_lookup(ngrams), -12.0)
    tables = ngram_arrays(ngrams, -12.0)
    choose = random.Random(seed)
    common = [
        ngrams.words[index] for order in ngrams.orders[1:] for index in order.words[::9999, 0]
    ]
    pool = [*common, *choose.sample(ngrams.words, 200), "qqxq"]
    sentences = [[*choose.choices(pool, k=9), "</s>"] for _ in range(40)]
    found, _ = scored(ngrams, tables, sentences)
    for scores, sentence in zip(found, sentences, strict=True):
        assert scores == pytest.approx(model.word_scores(["<s>", *sentence])[1:], abs=1e-5)
