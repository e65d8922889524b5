"""N-best lists: rescore them with a language model, and join them over segments."""

import heapq
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import TypeVar

from conch.wire.options import RecognitionOptions
from conch.wire.result import Hypothesis

Number = TypeVar("Number", int, float)


def rescored(
    nbest: Sequence[Hypothesis],
    language_scores: Sequence[tuple[float, int]],
    options: RecognitionOptions,
) -> list[Hypothesis]:
    """Return the hypotheses sorted by `score + lm_weight · lm_score + word_bonus · num_words`.

    With decoder wfst, `am_score` takes the place of `score`, because the n-grams in the graph come
    from a pruned model.

    Args:
        nbest: The hypotheses of one segment.
        language_scores: Log probability and number of words of each hypothesis by the language
            model.
        options: The request's options. `lm_weight` scales the language model's score to the
            decoder's. `word_bonus` is added per word, in nats; it makes up for the language
            model's preference for short texts.
    """
    weight, bonus = options.lm_weight, options.word_bonus
    has_graph = options.decoder == "wfst"
    scored = [
        replace(
            hypothesis,
            score=(hypothesis.am_score if has_graph else hypothesis.score)
            + weight * lm_score
            + bonus * num_words,
            lm_score=lm_score,
            num_words=num_words,
        )
        for hypothesis, (lm_score, num_words) in zip(nbest, language_scores, strict=True)
    ]
    return sorted(scored, key=lambda hypothesis: -hypothesis.score)


def attention_rescored(
    nbest: Sequence[Hypothesis], attention_scores: Sequence[float], attention_weight: float
) -> list[Hypothesis]:
    """Return the hypotheses sorted by `score + attention_weight · attention_score`.

    This is the second pass of U2 (https://arxiv.org/abs/2012.05481): an attention decoder scores
    the texts that CTC found.

    Args:
        nbest: The hypotheses of one segment.
        attention_scores: Log probability of each hypothesis by the attention decoder.
        attention_weight: Weight of the attention decoder's score.
    """
    scored = [
        replace(
            hypothesis,
            score=hypothesis.score + attention_weight * attention_score,
            attention_score=attention_score,
        )
        for hypothesis, attention_score in zip(nbest, attention_scores, strict=True)
    ]
    return sorted(scored, key=lambda hypothesis: -hypothesis.score)


def joined(segments: Sequence[Sequence[Hypothesis]], nbest: int) -> tuple[Hypothesis, ...]:
    """Return the best hypotheses of the whole audio from those of its segments.

    The scores of segments add up, so it is enough to keep the best `nbest` combinations after each
    segment. The result is exact, and the time is linear in the number of segments.

    Args:
        segments: N-best list of each segment, best first, in order of time.
        nbest: Largest number of hypotheses to return.
    """
    best = [_Joined()]
    for segment in segments:
        pairs = product(best, segment[:nbest])
        chosen = heapq.nsmallest(nbest, pairs, key=lambda pair: -(pair[0].score + pair[1].score))
        best = [_Joined(prefix, item) for prefix, item in chosen]
    return tuple(candidate.hypothesis() for candidate in best)


class _Joined:
    """A hypothesis per segment, as a linked list with shared prefixes, and the total score."""

    __slots__ = ("last", "prefix", "score")

    def __init__(self, prefix: "_Joined | None" = None, last: Hypothesis | None = None) -> None:
        self.prefix = prefix
        self.last = last
        self.score: float = prefix.score + last.score if prefix and last else 0.0

    def parts(self) -> list[Hypothesis]:
        found = []
        step: _Joined | None = self
        while step and step.last:
            found.append(step.last)
            step = step.prefix
        return found[::-1]

    def hypothesis(self) -> Hypothesis:
        parts = self.parts()
        return Hypothesis(
            text=" ".join(part.text for part in parts if part.text),
            score=self.score,
            am_score=sum(part.am_score for part in parts),
            lm_score=_sum([part.lm_score for part in parts]),
            num_words=_sum([part.num_words for part in parts]),
            attention_score=_sum([part.attention_score for part in parts]),
        )


def _sum(values: Sequence[Number | None]) -> Number | None:
    """Return the sum of the values, or None if one is None or there are no values."""
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known and len(known) == len(values) else None
