"""The weights of rescoring: what each opinion on a hypothesis counts."""

from typing import Literal, NamedTuple

from conch.families import decoders

Opinion = Literal["neural", "ngram", "ctc", "attention"]
"""What may score hypotheses again: a language model, or another acoustic model."""


class Weights(NamedTuple):
    """Factors of the parts of a score, most of them log probabilities. A decoder's own counts 1."""

    lm: float = 0.0
    ctc: float = 0.0
    attention: float = 0.0
    word_bonus: float = 0.0
    """Nats for each word. They make up for the preference of the other parts for short texts."""


def tuned_weights(decoder: str, opinions: frozenset[Opinion]) -> Weights:
    """Return the weights of a decoder's hypotheses; zeros if nothing scores them or is tuned."""
    return Weights(**decoders()[decoder].weights.get(tuple(sorted(opinions)), {}))


def fusion_weights(decoder: str) -> Weights:
    """Return the weights of the language model in a decoder's search; zeros without a search."""
    return Weights(**decoders()[decoder].weights.get(("fusion",), {}))
