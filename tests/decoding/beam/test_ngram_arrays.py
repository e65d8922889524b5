"""N-grams read from files and scored as arrays, against the scores of sentences."""

import math
import random

import numpy as np
import pytest
from tiny_arpa import TINY

from conch.decoding.beam.language import load_ctc_language_model
from conch.decoding.beam.ngram_arrays import EMPTY_HISTORY, ngram_arrays, score_words
from conch.decoding.beam.trie import word_trie
from conch.decoding.vocab import CtcVocab
from conch.families.ngram.arpa import read_ngrams
from conch.families.ngram.model import SHIPPED, LanguageModelConfig, NgramModel, ngram_lookup


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


def test_what_is_loaded_again_is_mapped_and_the_same(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    vocab = CtcVocab(("", " ", "a", "b"))
    config = LanguageModelConfig(model=str(tiny), oov_log_prob=-9.0)
    first = load_ctc_language_model(config, vocab, None)
    monkeypatch.setattr("conch.decoding.beam.language.read_ngrams", None)
    again = load_ctc_language_model(config, vocab, None)
    ngrams = read_ngrams(tiny)
    built = (*ngram_arrays(ngrams, -9.0), *word_trie(ngrams.words, vocab))
    for model in (first, again):
        assert model.start == 1 + ngrams.words.index("<s>")
        assert model.end == ngrams.words.index("</s>")
        for found, expected in zip((*model.ngram, *model.trie), built, strict=True):
            if isinstance(expected, np.ndarray):
                assert isinstance(found.base, np.memmap)
                assert found.dtype == expected.dtype
                np.testing.assert_array_equal(found, expected)
            else:
                assert found == expected


def test_another_vocabulary_and_another_model_have_arrays_of_their_own(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    other = tmp_path / "other.arpa"
    other.write_text(TINY.replace("-1.5\tc", "-1.6\tc"))
    for path in (tiny, other):
        for texts in (("", " ", "a", "b"), ("", " ", "b", "a")):
            config = LanguageModelConfig(model=str(path))
            load_ctc_language_model(config, CtcVocab(texts), None)
    assert len(list((tmp_path / "cache" / "conch").iterdir())) == 4
