"""N-best lists: rank them by all that is known of them, and join them over segments."""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Literal, NamedTuple

from conch.families import decoders
from conch.wire.joining import joined_text
from conch.wire.result import Hypothesis

Opinion = Literal["neural", "ngram", "ctc", "attention"]
"""A second scorer of hypotheses: a language model, or another acoustic model."""


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


def ranked(
    nbest: Sequence[Hypothesis], weights: Weights, *, replaces_lm: bool = False
) -> list[Hypothesis]:
    """Return the hypotheses of one segment with their scores, sorted by them.

    The score is that of `Hypothesis`, with the factors of `weights`. A part that is None does not
    count. With `replaces_lm`, a language model of the decoder's own does not count either.

    Scoring the texts of one model by others is the second pass of U2
    (https://arxiv.org/abs/2012.05481) and n-best rescoring as of Ostendorf et al. (1991,
    https://aclanthology.org/H91-1013).
    """
    scored = [
        replace(
            item,
            score=(item.am_score if replaces_lm else item.score)
            + _weighted(weights.lm, item.lm_score)
            + _weighted(weights.ctc, item.ctc_score)
            + _weighted(weights.attention, item.attention_score)
            + _weighted(weights.word_bonus, item.num_words),
        )
        for item in nbest
    ]
    return sorted(scored, key=lambda item: -item.score)


def _weighted(weight: float, part: float | None) -> float:
    # An impossible text has -inf, and 0 · -inf would be no number.
    return weight * part if weight and part is not None else 0.0


def joined(segments: Sequence[Sequence[Hypothesis]], nbest: int) -> tuple[Hypothesis, ...]:
    """Return the `nbest` best hypotheses of the whole audio from those of its segments.

    The scores of segments add up, so it is enough to keep the best combinations after each segment.
    The result is exact, and the time is linear in the number of segments, which are in order of
    time, each with its best hypothesis first.
    """
    # The score and the parts, as a linked list with shared beginnings: (all before, last) or ().
    best: list[tuple[float, Any]] = [(0.0, ())]
    for segment in segments:
        pairs = product(best, segment[:nbest])
        chosen = heapq.nsmallest(nbest, pairs, key=lambda pair: -(pair[0][0] + pair[1].score))
        best = [(score + item.score, (before, item)) for (score, before), item in chosen]
    return tuple(_hypothesis(*candidate) for candidate in best)


def _hypothesis(score: float, linked: Any) -> Hypothesis:
    parts: deque[Hypothesis] = deque()
    while linked:
        linked, item = linked
        parts.appendleft(item)
    names = ("lm_score", "num_words", "ctc_score", "attention_score")
    sums = {name: _sum([getattr(part, name) for part in parts]) for name in names}
    text, am_score = joined_text(part.text for part in parts), sum(part.am_score for part in parts)
    return Hypothesis(text, score, am_score, **sums)


def _sum(values: Sequence[Any]) -> Any:
    """Return the sum of the values, or None if one is None or there are no values."""
    return None if None in values or not values else sum(values[1:], values[0])
