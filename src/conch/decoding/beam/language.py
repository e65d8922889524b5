"""The n-gram as the CTC search fuses it."""

from dataclasses import dataclass

from conch.decoding.beam.arrays import Array, namespace
from conch.decoding.beam.ngram_arrays import NgramArrays, ngram_arrays, score_words
from conch.decoding.beam.trie import NO_WORD, WordTrie, word_trie
from conch.decoding.vocab import CtcVocab
from conch.language.arpa import read_ngrams
from conch.language.ngram import LanguageModelConfig, model_path


@dataclass(frozen=True, slots=True)
class CtcLanguageModel:
    """An n-gram and the trie of its words."""

    ngram: NgramArrays
    trie: WordTrie
    start: int
    """The history at the beginning of a sentence."""
    end: int
    """The word that is the end of a sentence."""

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
    """Load an n-gram for a vocabulary: seconds, and 120 MB for the en-us trigram.

    Raises:
        ConfigError: the file is missing, broken, in KenLM's binary form (only ARPA files can
            be fused), or has no marks of the sentence's beginning and end.
    """
    path = model_path(config.model)
    ngrams = read_ngrams(path)
    ids = {word: index for index, word in enumerate(ngrams.words)}
    return CtcLanguageModel(
        ngram=ngram_arrays(ngrams, config.oov_log_prob, device),
        trie=word_trie(ngrams.words, vocab, device),
        start=1 + ids["<s>"],
        end=ids["</s>"],
    )
