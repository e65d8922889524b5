"""How many words of a conversation are given to the wrong speaker."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from conch.wire.result import Word
from lab.speakers.turns import Turn

_MARKS = re.compile(r"[^\w' ]")


def wrong_words(said: Sequence[Turn], heard: Sequence[Word]) -> tuple[int, int]:
    """Return the words with the wrong speaker, and all words that were recognised.

    Those are the words that are right or that stand for another one (WDER, Shafey et al., 2019,
    https://arxiv.org/abs/1907.05337). Where utterances overlap, the reference has one after the
    other and the transcript may not, so that perfect labels have errors too.

    Args:
        said: The utterances with their texts.
        heard: The words that were recognised, with the speakers' names in `said`.
    """
    import jiwer

    reference = _owned((turn.start, turn.text, turn.speaker) for turn in said)
    found = _owned((word.start, word.text, str(word.speaker)) for word in heard)
    if not reference or not found:
        return 0, 0
    said_text, found_text = (" ".join(word for word, _ in words) for words in (reference, found))
    wrong = total = 0
    for chunk in jiwer.process_words(said_text, found_text).alignments[0]:
        if chunk.type in ("equal", "substitute"):
            pairs = zip(
                reference[chunk.ref_start_idx : chunk.ref_end_idx],
                found[chunk.hyp_start_idx : chunk.hyp_end_idx],
                strict=True,
            )
            owners = [(theirs, ours) for (_, theirs), (_, ours) in pairs]
            total += len(owners)
            wrong += sum(theirs != ours for theirs, ours in owners)
    return wrong, total


def errors_by_speaker(said: Sequence[Turn], heard: Sequence[Word]) -> tuple[int, int]:
    """Return the word errors of all speakers and the words that they say (cpWER).

    The words of each speaker are one text, and speakers go together so that errors are fewest
    (Watanabe et al., 2020, https://arxiv.org/abs/2004.09249).
    """
    import jiwer

    theirs = _texts((turn.start, turn.text, turn.speaker) for turn in said)
    ours = _texts((word.start, word.text, str(word.speaker)) for word in heard)
    size = max(len(theirs), len(ours))
    costs = np.zeros((size, size))
    for row, column in np.ndindex(size, size):
        reference, found = "".join(theirs[row : row + 1]), "".join(ours[column : column + 1])
        if reference and found:
            counts = jiwer.process_words(reference, found)
            costs[row, column] = counts.substitutions + counts.deletions + counts.insertions
        else:
            costs[row, column] = len(reference.split()) + len(found.split())
    return int(costs[linear_sum_assignment(costs)].sum()), sum(len(text.split()) for text in theirs)


def _owned(items: Iterable[tuple[float, str, str]]) -> list[tuple[str, str]]:
    """Return the words of texts with start and speaker, in order of time, each with its speaker."""
    in_order = sorted(items, key=lambda item: item[0])
    return [
        (word, who) for _, text, who in in_order for word in _MARKS.sub(" ", text.lower()).split()
    ]


def _texts(items: Iterable[tuple[float, str, str]]) -> list[str]:
    by_speaker: dict[str, list[str]] = defaultdict(list)
    for word, who in _owned(items):
        by_speaker[who].append(word)
    return [" ".join(words) for words in by_speaker.values()]
