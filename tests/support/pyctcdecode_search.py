"""Beam search with an n-gram by pyctcdecode, which shares no code with Conch."""

from collections.abc import Sequence
from typing import Any

from pyctcdecode.alphabet import Alphabet
from pyctcdecode.decoder import BeamSearchDecoderCTC
from pyctcdecode.language_model import AbstractLanguageModel
from pygtrie import CharTrie

from conch.decoding.ngram.files import read_ngrams
from conch.decoding.ngram.model import LanguageModelConfig, NgramModel, model_path, ngram_lookup

History = tuple[str, ...]


def beam_search(
    log_probs: Any,
    vocab: Sequence[str],
    config: LanguageModelConfig,
    lm_weight: float,
    word_bonus: float,
    beam_size: int,
) -> list[tuple[str, float]]:
    """Return texts and scores, best first, dropped by nothing but the beam's size."""
    scorer = _Scorer(config, lm_weight, word_bonus)
    decoder = BeamSearchDecoderCTC(Alphabet.build_alphabet(list(vocab)), scorer)
    beams = decoder.decode_beams(
        log_probs, beam_width=beam_size, beam_prune_logp=-1000, prune_history=False
    )
    return [(beam[0], beam[-1]) for beam in beams]


class _Scorer(AbstractLanguageModel):
    """The n-gram that Conch reads, in place of KenLM."""

    def __init__(self, config: LanguageModelConfig, lm_weight: float, word_bonus: float) -> None:
        ngrams = read_ngrams(model_path(config.model))
        self._model = NgramModel(ngram_lookup(ngrams), config.oov_log_prob)
        self._words = CharTrie.fromkeys(self._model.words, True)
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
        return self._unknown * max(1.0, len(partial_token) / 6)

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
        log_prob, context = 0.0, (-1,) * len(self._model.start)
        for word in words:
            log_prob, context = self._model.after(context, word)
        return log_prob
