"""N-best lists: rescored by a language model, and joined over segments."""

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
    """Return the hypotheses by `score + lm_weight · lm_score + word_bonus · num_words`.

    With decoder wfst `am_score` is in place of `score`: a graph's n-grams are a pruned model's.

    Args:
        nbest: The hypotheses of one segment, as the decoder found them.
        language_scores: Per hypothesis, its log probability and its words by the model.
        options: Of the search that found them. `lm_weight`: what a nat of the language model is
            worth in nats of the decoder. `word_bonus`: nats per word; makes up for the model's
            dislike of every further word.
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
    """Return the hypotheses by `score + attention_weight · attention_score`.

    The second pass of U2 (https://arxiv.org/abs/2012.05481): an attention decoder's opinion of the
    texts that CTC found.

    Args:
        nbest: The hypotheses of one segment.
        attention_scores: Per hypothesis, its log probability by the attention decoder.
        attention_weight: What a nat of the attention decoder is worth in nats of CTC.
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

    Scores of segments add up, so the best `nbest` combinations of each prefix are all that the
    next segment needs: exact, and linear in the number of segments.

    Args:
        segments: N-best list of each segment, best first, in order of time.
        nbest: How many to return at most.
    """
    best = [_Joined()]
    for segment in segments:
        pairs = product(best, segment[:nbest])
        chosen = heapq.nsmallest(nbest, pairs, key=lambda pair: -(pair[0].score + pair[1].score))
        best = [_Joined(prefix, item) for prefix, item in chosen]
    return tuple(candidate.hypothesis() for candidate in best)


class _Joined:
    """One hypothesis per segment so far, as a chain that prefixes share, and their total score."""

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
    """Return the sum of values, or None where one is unknown or there is none."""
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known and len(known) == len(values) else None
