"""The language model that comes with Conch, against pocketsphinx and the file it was made from."""

from pathlib import Path

import numpy as np
import pytest
from pocketsphinx_model import PocketsphinxModel
from recordings import recordings_of

from conch.decoding.ngram.files import read_ngrams
from conch.decoding.ngram.model import SHIPPED, NgramModel, ngram_lookup
from conch.decoding.ngram.table import NgramTable
from conch.language import language_model_words
from conch.wire.errors import ConfigError
from lab.training.pack_ngrams import packaged_model, packed
from lab.training.sphinx_trie import LOG_BASE, read_sphinx_trie

pytest.importorskip("pocketsphinx")

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(scope="module")
def shipped() -> NgramTable:
    return read_ngrams(SHIPPED)


@pytest.mark.nightly
def test_the_file_that_ships_is_what_the_tool_makes(shipped):
    original = read_sphinx_trie(packaged_model())
    assert [len(order) for order in original.orders] == [72_547, 2_051_541, 1_669_625]
    assert shipped.words == original.words
    for ours, theirs in zip(shipped.orders, original.orders, strict=True):
        assert np.array_equal(ours.words, theirs.words)
        assert np.array_equal(ours.log_probs, theirs.log_probs)
        assert np.array_equal(ours.backoffs, theirs.backoffs)
    with np.load(SHIPPED) as arrays:
        made = packed(original, LOG_BASE)
        assert set(arrays) == set(made)
        assert all(np.array_equal(arrays[name], made[name]) for name in arrays)


def test_single_words_score_as_in_pocketsphinx(shipped):
    model = PocketsphinxModel(packaged_model(), -12.0)
    random = np.random.default_rng(0)
    listed = shipped.orders[2].words[random.integers(0, len(shipped.orders[2]), 200)]
    anything = random.integers(0, len(shipped.words), (200, 3))
    anything[:, 1] = shipped.words.index("the")
    for ngrams in (listed, anything):
        texts = [[shipped.words[index] for index in ngram] for ngram in ngrams]
        expected = [model.word_score(text[2], [text[1], text[0]]) for text in texts]
        assert shipped.log_probs_of(ngrams) == pytest.approx(expected, abs=1e-3)


def test_sentences_score_as_in_pocketsphinx(shipped):
    ours, theirs = (
        NgramModel(ngram_lookup(shipped), -16.0),
        PocketsphinxModel(packaged_model(), -16.0),
    )
    texts = [item.text for folder in (DATA, DATA / "pauses") for item in recordings_of(folder)]
    sentences = [language_model_words(text) for text in (*texts, "the zxqv of the qqxq said so")]
    assert len(sentences) == 17 and any("zxqv" in sentence for sentence in sentences)
    for words in sentences:
        # pocketsphinx cuts each number to a ten-thousandth of a nat.
        assert ours.score(words) == pytest.approx(theirs.score(words), abs=1e-4 * (len(words) + 1))


def test_a_broken_binary_is_named(tmp_path):
    path = tmp_path / "model.lm.bin"
    path.write_bytes(packaged_model().read_bytes()[:2_000_000])
    with pytest.raises(ConfigError, match=r"model\.lm\.bin is broken"):
        read_sphinx_trie(path)
