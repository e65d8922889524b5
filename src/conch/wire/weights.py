"""The weights of rescoring: what each opinion on a hypothesis counts."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

Opinion = Literal["neural", "ngram", "ctc", "attention"]
"""What may score hypotheses again: a language model, or another acoustic model."""


class Weights(NamedTuple):
    """Factors of the parts of a score. A decoder's own score counts 1."""

    lm: float = 0.0
    """Weight of the language model's log probability."""
    ctc: float = 0.0
    """Weight of the CTC model's log probability."""
    attention: float = 0.0
    """Weight of the attention decoder's log probability."""
    word_bonus: float = 0.0
    """Nats for each word. They make up for the preference of the other parts for short texts."""


FUSION_WEIGHTS = Weights(lm=0.8, word_bonus=1.5)
"""Weights of the language model in the search, by `lab.training.tune_ctc`."""

TUNED: Mapping[tuple[str, frozenset[Opinion]], Weights] = {
    ("attention", frozenset({"ngram"})): Weights(lm=0.02),
    ("attention", frozenset({"neural"})): Weights(lm=0.15, word_bonus=0.5),
    ("attention", frozenset({"ctc"})): Weights(ctc=0.1, word_bonus=-1.0),
    ("attention", frozenset({"ngram", "ctc"})): Weights(lm=0.06, ctc=0.1, word_bonus=-1.0),
    ("attention", frozenset({"neural", "ctc"})): Weights(lm=0.25, ctc=0.15, word_bonus=-1.0),
    ("wfst", frozenset({"ngram"})): Weights(lm=1.0, word_bonus=-1.0),
    ("wfst", frozenset({"neural"})): Weights(lm=1.2, word_bonus=-1.5),
    ("wfst", frozenset({"attention"})): Weights(attention=3.0, word_bonus=-1.5),
    ("wfst", frozenset({"ngram", "attention"})): Weights(lm=1.6, attention=2.75, word_bonus=-0.5),
    ("wfst", frozenset({"neural", "attention"})): Weights(lm=1.2, attention=2.5, word_bonus=-1.0),
    ("ctc", frozenset({"ngram"})): Weights(lm=0.8, word_bonus=1.5),
    ("ctc", frozenset({"neural"})): Weights(lm=0.8, word_bonus=1.5),
    ("ctc", frozenset({"attention"})): Weights(attention=1.0),
    ("ctc", frozenset({"ngram", "attention"})): Weights(lm=0.8, attention=1.0, word_bonus=1.5),
    ("ctc", frozenset({"neural", "attention"})): Weights(lm=0.8, attention=1.0, word_bonus=1.5),
}
"""Weights by decoder and opinions, by `lab.training.tune_rescoring` on dev. Those of decoder ctc
are the ones of fusion: its lists have other spellings, hardly other words."""


def tuned_weights(decoder: str, opinions: frozenset[Opinion]) -> Weights:
    """Return the weights of a decoder's hypotheses; zeros if nothing scores them or is tuned."""
    return TUNED.get((decoder, opinions), Weights())
