"""Beam search with an n-gram, by pyctcdecode (pip install pyctcdecode).

pyctcdecode knows KenLM's files only; this scores by what `conch.families.ngram` reads, so that the
en-us trigram that comes with Conch serves.
"""

from collections.abc import Sequence

from pyctcdecode.alphabet import Alphabet
from pyctcdecode.decoder import BeamSearchDecoderCTC
from pyctcdecode.language_model import AbstractLanguageModel
from pygtrie import CharTrie

from conch.component.arrays import FloatArray
from conch.families.ctc.units import opens_words
from conch.families.ngram.arpa import read_ngrams
from conch.families.ngram.model import LanguageModelConfig, NgramModel, model_path, ngram_lookup

History = tuple[str, ...]
"""The words before, the oldest first."""

_TYPICAL_WORD = 6
"""Letters; longer beginnings of no known word cost more, as in pyctcdecode."""


class NgramSearch:
    """From log probabilities to the text that is best with the n-gram."""

    def __init__(
        self,
        vocab: Sequence[str],
        config: LanguageModelConfig,
        *,
        lm_weight: float,
        word_bonus: float,
        beam_size: int,
    ) -> None:
        """Load the n-gram for units of this vocabulary."""
        scorer = _Scorer(config, lm_weight, word_bonus)
        alphabet = Alphabet.build_alphabet(pyctcdecode_labels(vocab))
        self._decoder = BeamSearchDecoderCTC(alphabet, scorer)
        self._beam_size = beam_size

    def __call__(self, log_probs: FloatArray) -> str:
        """Return the best text of float32 `[T, vocab_size]`."""
        # Its annotation asks for a precision that no numpy array has.
        return str(self._decoder.decode(log_probs, beam_width=self._beam_size))  # type: ignore[arg-type]

    def unpruned(self, log_probs: FloatArray) -> list[tuple[str, float]]:
        """Return the beam's texts and scores, best first, dropped by nothing but the beam's size.

        Args:
            log_probs: float32 `[T, vocab_size]`.
        """
        beams = self._decoder.decode_beams(
            log_probs,  # type: ignore[arg-type]
            beam_width=self._beam_size,
            beam_prune_logp=-1000,
            prune_history=False,
        )
        return [(beam[0], beam[-1]) for beam in beams]


class _Scorer(AbstractLanguageModel):
    def __init__(self, config: LanguageModelConfig, lm_weight: float, word_bonus: float) -> None:
        ngrams = read_ngrams(model_path(config.model))
        self._model = NgramModel(ngram_lookup(ngrams), config.oov_log_prob)
        self._words = CharTrie.fromkeys(ngrams.words, True)
        self._lm_weight, self._word_bonus = lm_weight, word_bonus
        self._unknown = lm_weight * config.oov_log_prob

    @property
    def order(self) -> int:
        return 3

    def get_start_state(self) -> History:  # type: ignore[override]
        return ("<s>",)

    def score_partial_token(self, partial_token: str) -> float:
        if self._words.has_node(partial_token):
            return 0.0
        return self._unknown * max(1.0, len(partial_token) / _TYPICAL_WORD)

    def score(
        self, prev_state: History, word: str, is_last_word: bool = False
    ) -> tuple[float, History]:
        added, state = 0.0, prev_state
        if word:  # pyctcdecode asks for an empty one behind a text that ends in a space
            added = self._lm_weight * self._log_prob(*prev_state, word) + self._word_bonus
            state = (*prev_state, word)[1 - self.order :]
        if is_last_word:
            added += self._lm_weight * self._log_prob(*state, "</s>")
        return added, state

    def _log_prob(self, *words: str) -> float:
        """Return the natural log probability of the last word after the others."""
        return float(self._model.word_scores(words)[-1])


def pyctcdecode_labels(vocab: Sequence[str]) -> list[str]:
    """Return a vocabulary in pyctcdecode's form: ▁ begins words of subwords, else a space does."""
    if opens_words(vocab):
        return [unit.replace(" ", "▁") for unit in vocab]
    return list(vocab)
