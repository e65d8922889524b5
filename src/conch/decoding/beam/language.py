"""The n-gram as the CTC search fuses it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from conch.cache import Arrays, cached_arrays, digest_of
from conch.decoding.beam.arrays import Array, namespace, placed
from conch.decoding.beam.ngram_arrays import NgramArrays, ngram_arrays, score_words
from conch.decoding.beam.trie import NO_WORD, ROOT, WordTrie, word_trie
from conch.decoding.vocab import CtcVocab
from conch.families.ngram.arpa import read_ngrams
from conch.families.ngram.model import LanguageModelConfig, model_path
from conch.families.ngram.table import SENTENCE_END, SENTENCE_START

_VERSION = 1
"""Of the arrays in the cache. It changes with what they hold."""
_TRIE = "trie_"
_NUMBERS = "numbers"
"""The first history, the word that ends a sentence, and the n-grams' order."""


@dataclass(frozen=True, slots=True)
class CtcLanguageModel:
    """An n-gram and the trie of its words."""

    ngram: NgramArrays
    trie: WordTrie
    start: int
    """The history at the beginning of a sentence."""
    end: int
    """The word that is the end of a sentence."""
    device: str | None = None
    """Where its arrays are, as in `arrays.placed`."""

    def word_log_probs(self, words: Sequence[Sequence[int]]) -> list[float]:
        """Return the natural log probability of each word of a text, given as its units."""
        found = []
        context = np.array([self.start])
        for units in words:
            node = ROOT
            for unit in units:
                node = int(self.trie.following[node, unit])
            word = np.array([int(self.trie.words[node])])
            history, ids = (placed(item, self.device) for item in (context, word))
            log_prob, target = score_words(self.ngram, history, ids)
            found.append(float(log_prob[0]))
            context = np.array([int(target[0])])
        return found

    def final(self, node: Array, context: Array) -> tuple[Array, Array]:
        """Return what the last word and the end of the sentence add, and where a word ended.

        Args:
            node: int64 `[M]`, of the trie.
            context: int64 `[M]`: the n-gram's state before the last word.

        Returns:
            Natural log probabilities, float64 `[M]`; and bool `[M]`, False between words.
        """
        xp, word = namespace(node), self.trie.words.take(node)
        closes = word != NO_WORD
        log_prob, target = score_words(self.ngram, context, word)
        log_prob = xp.where(closes, log_prob, 0.0)
        target = xp.where(closes, target, context)
        ending, _ = score_words(self.ngram, target, xp.full_like(word, self.end))
        return log_prob + ending, closes


def load_ctc_language_model(
    config: LanguageModelConfig, vocab: CtcVocab, device: str | None
) -> CtcLanguageModel:
    """Load an n-gram for a vocabulary, mapped from the cache as all processes share it.

    The first load takes seconds. The en-us trigram has 130 MB of arrays, of which a search reads a
    part.

    Raises:
        ConfigError: the file is missing, broken, in KenLM's binary form (only ARPA files can
            be fused), or has no marks of the sentence's beginning and end.
    """
    path = model_path(config.model)

    def make() -> Arrays:
        ngrams = read_ngrams(path)
        tables = ngram_arrays(ngrams, config.oov_log_prob)._asdict()
        trie = word_trie(ngrams.words, vocab)._asdict()
        start, end = map(ngrams.words.index, (SENTENCE_START, SENTENCE_END))
        return {
            _NUMBERS: np.array([1 + start, end, len(ngrams.orders)]),
            **{name: array for name, array in tables.items() if isinstance(array, np.ndarray)},
            **{_TRIE + name: array for name, array in trie.items()},
        }

    key = f"ctc-ngrams-{digest_of(path, *vocab.texts)}-{_VERSION}"
    arrays = dict(cached_arrays(key, "the n-grams of the CTC search", make))
    start, end, order = map(int, arrays.pop(_NUMBERS))
    on_device = {name: placed(array, device) for name, array in arrays.items()}
    trie = {name: on_device.pop(_TRIE + name) for name in WordTrie._fields}
    ngram = NgramArrays(**on_device, order=order, oov_log_prob=config.oov_log_prob)
    return CtcLanguageModel(ngram, WordTrie(**trie), start, end, device)
