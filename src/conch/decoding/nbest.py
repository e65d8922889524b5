"""N-best lists: rescored by a language model, and joined over segments."""

import heapq
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from conch.result import Hypothesis


def rescored(
    nbest: Sequence[Hypothesis],
    language_scores: Sequence[tuple[float, int]],
    lm_weight: float,
    word_bonus: float,
) -> list[Hypothesis]:
    """Return the hypotheses by `am_score + lm_weight · lm_score + word_bonus · num_words`.

    Args:
        nbest: The hypotheses of one segment.
        language_scores: Per hypothesis, its log probability and its words by the model.
        lm_weight: What a nat of the language model is worth in nats of the decoder.
        word_bonus: Nats per word; makes up for the model's dislike of every further word.
    """
    scored = [
        replace(
            hypothesis,
            score=hypothesis.am_score + lm_weight * lm_score + word_bonus * num_words,
            lm_score=lm_score,
            num_words=num_words,
        )
        for hypothesis, (lm_score, num_words) in zip(nbest, language_scores, strict=True)
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
        rescored = bool(parts) and all(part.lm_score is not None for part in parts)
        return Hypothesis(
            text=" ".join(part.text for part in parts if part.text),
            score=self.score,
            am_score=sum(part.am_score for part in parts),
            lm_score=sum(part.lm_score or 0.0 for part in parts) if rescored else None,
            num_words=sum(part.num_words or 0 for part in parts) if rescored else None,
        )
