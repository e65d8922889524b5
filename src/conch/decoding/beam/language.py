"""The n-gram as the CTC search fuses it."""

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from conch.decoding.beam.lexicon import NO_WORD, Lexicon, lexicon
from conch.decoding.beam.ngram_tensors import NgramTensors, ngram_tensors, score_words
from conch.decoding.vocab import CtcVocab
from conch.language.arpa import read_ngrams
from conch.language.ngram import LanguageModelConfig, model_path


@dataclass(frozen=True, slots=True)
class CtcLanguageModel:
    """An n-gram and the trie of its words."""

    ngram: NgramTensors
    lexicon: Lexicon
    start: int
    """The history at the beginning of a sentence."""
    end: int
    """The word that is the end of a sentence."""

    def final(self, node: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the last word and the end of the sentence add, and where a word ended.

        Args:
            node: int64 `[M]`, of the lexicon.
            context: int64 `[M]`: the n-gram's state before the last word.

        Returns:
            Natural log probabilities, float64 `[M]`; and bool `[M]`, False between words.
        """
        word = self.lexicon.words.take(node)
        closes = word != NO_WORD
        log_prob, target = _compiled()(self.ngram, context, word)
        log_prob = torch.where(closes, log_prob, 0.0)
        target = torch.where(closes, target, context)
        ending, _ = _compiled()(self.ngram, target, torch.full_like(word, self.end))
        return log_prob + ending, closes


@functools.cache
def _compiled() -> Callable[[NgramTensors, Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Compile `score_words`, as `ctc_beam` does all of its loop."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        compiled: Callable[[NgramTensors, Tensor, Tensor], tuple[Tensor, Tensor]] = (
            torch.jit.script(score_words)
        )
    return compiled


def load_ctc_language_model(
    config: LanguageModelConfig, vocab: CtcVocab, device: torch.device
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
        ngram=ngram_tensors(ngrams, config.oov_log_prob, device),
        lexicon=lexicon(ngrams.words, vocab, device),
        start=1 + ids["<s>"],
        end=ids["</s>"],
    )


def no_language_model(width: int, device: torch.device) -> CtcLanguageModel:
    """Return what stands for the n-gram where no stream uses one.

    Args:
        width: of the vocabulary.
        device: where it is to lie.
    """
    integers = torch.zeros(0, dtype=torch.int64, device=device)
    numbers = torch.zeros(0, device=device)
    table = torch.zeros(0, width + 1, device=device)
    return CtcLanguageModel(
        NgramTensors(integers, numbers, integers.int(), numbers, numbers, integers.int(), 1, 0.0),
        Lexicon(table.int(), table, integers),
        start=0,
        end=0,
    )
