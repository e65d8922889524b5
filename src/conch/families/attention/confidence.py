"""Word confidences by all that is known of a segment: the decoder's, and those of the rescorers."""

import math
from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher

import numpy as np

from conch.language.normalize import language_model_words
from conch.wire.result import Hypothesis, Word

TOKENS, AGREEMENT, BIAS = 0.59, 0.23, 0.11
"""Coefficients of `calibrated`, by logistic regression on dev: see docs/notes/rescoring.md."""
_CERTAIN = 0.999
"""Largest probability that counts, so that its log odds are finite."""


def calibrated(words: Sequence[Word], nbest: Sequence[Hypothesis]) -> tuple[Word, ...]:
    """Return words with the probability that they are right as their confidence.

    The log odds are a weighted sum of those of the decoder's own confidence and of the word's
    posterior probability in the list (Platt, 1999; Wessel et al., 2001,
    https://doi.org/10.1109/89.906002). Hypotheses that sound the same are one in the posterior.

    `words` are those of the best hypothesis. `nbest` is in the order of all opinions, scores in
    nats.
    """
    found = []
    for word, agreement in zip(words, agreements(words, nbest), strict=True):
        odds = TOKENS * log_odds(word.confidence) + AGREEMENT * log_odds(agreement) + BIAS
        found.append(replace(word, confidence=round(1 / (1 + math.exp(-odds)), 4)))
    return tuple(found)


def agreements(words: Sequence[Word], nbest: Sequence[Hypothesis]) -> list[float]:
    """Return the posterior probability of each word of the best text: its share of the list."""
    spoken = [language_model_words(word.text) for word in words]
    best = [part for parts in spoken for part in parts]
    scores: dict[tuple[str, ...], float] = {}
    for item in nbest:
        scores.setdefault(tuple(language_model_words(item.text)), item.score)
    highest = max(scores.values())
    shares = {text: math.exp(score - highest) for text, score in scores.items()}
    total = sum(shares.values())
    found = np.zeros(len(best))
    for text, share in shares.items():
        same = SequenceMatcher(None, best, text, autojunk=False)
        for block in same.get_matching_blocks():
            found[block.a : block.a + block.size] += share / total
    parts = iter(found.tolist())
    return [min([next(parts) for _ in item], default=1.0) for item in spoken]


def log_odds(probability: float) -> float:
    """Return the log odds of a probability, clipped so that they are finite."""
    clipped = min(max(probability, 1 - _CERTAIN), _CERTAIN)
    return math.log(clipped / (1 - clipped))
