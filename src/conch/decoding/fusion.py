"""Shallow fusion: what an n-gram adds to the prefixes of a beam.

A word counts when it is complete. Until then, a beginning of no known word has a cost, as in
pyctcdecode: otherwise the beam would fill with words that turn out to be unknown.
"""

import functools
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from conch.decoding.ngram.model import Context, LanguageModelConfig, NgramModel, load_language_model
from conch.decoding.ngram.table import SENTENCE_END
from conch.wire.errors import ConfigError

_TYPICAL_WORD = 6
"""Letters; longer beginnings of no known word cost more."""
_CACHED = 1 << 16


class Words(NamedTuple):
    """The words of a prefix as the n-gram scores them."""

    last: str
    """The last word as far as it is spelled; empty between words."""
    spelling: int
    """Hash of the units of `last`."""
    context: Context
    """Context of the n-gram before `last`."""
    score: float
    """Score of the words before `last`, weighted, with the bonus of each."""
    lm_score: float
    """Log probability of the words before `last`, unweighted."""
    pending: float
    """Score of the last word until it is complete, 0 or less."""

    @property
    def gain(self) -> float:
        """Score that all words add to the prefix now."""
        return self.score + self.pending


class FusedLanguageModel:
    """An n-gram and the words of it that units can spell; immutable."""

    def __init__(self, ngrams: NgramModel, texts: Sequence[str]) -> None:
        """`texts` of units have a space where a word begins."""
        letters = {*"".join(texts)}
        # Without a space, all would be one word.
        known = ngrams.words if " " in letters else ()
        self._words = sorted(word for word in known if letters.issuperset(word))
        if not self._words:
            raise ConfigError(
                "language_model has no word that the units of the model write: they need its "
                "letters in the same case, and spaces between words"
            )
        self.oov_log_prob = ngrams.oov_log_prob
        self.start = ngrams.start
        self.is_beginning = functools.lru_cache(_CACHED)(self._is_beginning)
        self.after = functools.lru_cache(_CACHED)(ngrams.after)

    def _is_beginning(self, text: str) -> bool:
        index = bisect_left(self._words, text)
        return self._words[index : index + 1] != [] and self._words[index].startswith(text)

    def word_log_probs(self, words: Iterable[str]) -> list[float]:
        """Return the natural log probability of each word of a sentence."""
        log_probs = []
        context = self.start
        for word in words:
            log_prob, context = self.after(context, word)
            log_probs.append(log_prob)
        return log_probs


def load_fused_language_model(
    model: str, oov_log_prob: float, texts: Sequence[str]
) -> FusedLanguageModel:
    """Load an n-gram for units with these texts, of an ARPA file; see `LanguageModelConfig`."""
    ngrams = load_language_model(LanguageModelConfig(model=model, oov_log_prob=oov_log_prob))
    assert isinstance(ngrams, NgramModel)
    return FusedLanguageModel(ngrams, texts)


class Fusion:
    def __init__(
        self, model: FusedLanguageModel, texts: Sequence[str], lm_weight: float, word_bonus: float
    ) -> None:
        self._model = model
        self._texts = texts
        self._lm_weight, self._word_bonus = lm_weight, word_bonus
        self._unknown = lm_weight * model.oov_log_prob
        self.start = Words("", 0, model.start, 0.0, 0.0, 0.0)

    def grown(self, words: Words, unit: int) -> Words:
        text = self._texts[unit]
        spelling = words.spelling
        if text.startswith(" "):
            words = self._completed(words)
            spelling = 0
        last = words.last + text.strip()
        pending = 0.0
        if last and not self._model.is_beginning(last):
            pending = self._unknown * max(1.0, len(last) / _TYPICAL_WORD)
        return Words(
            last, hash((spelling, unit)), words.context, words.score, words.lm_score, pending
        )

    def finished(self, words: Words) -> Words:
        return self._closed(self._completed(words), SENTENCE_END, 0.0)

    def _completed(self, words: Words) -> Words:
        return self._closed(words, words.last, self._word_bonus) if words.last else words

    def _closed(self, words: Words, word: str, bonus: float) -> Words:
        log_prob, context = self._model.after(words.context, word)
        score = words.score + self._lm_weight * log_prob + bonus
        return Words("", words.spelling, context, score, words.lm_score + log_prob, 0.0)
