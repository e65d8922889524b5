"""How right and how early the text on the screen of a live stream is.

`screen_errors` judges each word of the reference once, a fixed time after it was spoken, by the
text that is on the screen then. The text is aligned with the whole reference by edit distance.
Reference words after the end of the text cost nothing, because they are still to come: a prefix
alignment. Words spoken before the end of the last utterance that has ended do cost, because its
text is complete. Of several alignments of the least cost, the one that reaches farthest counts.

The errors of a reference word are: 1 unless an equal word is aligned with it, and 1 for each word
inserted right before it. So a wrong text costs as in a word error rate, and a text that is late
costs as one that lacks the word. After the last answer the sum is that of a word error rate without
the words inserted after the last one.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from lab.alignment import TimedWord
from lab.live.shown import Screen


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an alignment of words with a reference."""

    word: int | None
    """Index of the word; None for a reference word that is left out."""
    reference: int
    """Index of the reference word. An inserted word has that of the next one."""
    is_equal: bool = False
    is_inserted: bool = False


class PrefixAligner:
    """Align texts with the beginning of one reference; see the module.

    Successive texts mostly share their first words, whose rows of the edit distance are kept.
    """

    def __init__(self, reference: Sequence[str]) -> None:
        self._places = np.arange(len(reference) + 1)
        numbers: dict[str, int] = {}
        self._reference = [numbers.setdefault(word, len(numbers)) for word in reference]
        self._numbers = numbers
        self._reference_ids = np.array(self._reference, dtype=np.int64)
        self._words: list[int] = []
        self._rows: list[NDArray[np.int64]] = [self._places]
        """Edit distance of the first words to each beginning of the reference."""

    def steps_back(self, words: Sequence[str], least: int = 0) -> Iterator[Step]:
        """Yield the steps of the best alignment from its end to its beginning.

        `least` is the number of reference words that are not free at the end.
        """
        ids = [self._numbers.get(word, -1) for word in words]
        self._update(ids)
        rows = self._rows
        last = rows[len(ids)][least:]
        row, place = len(ids), len(self._reference) - int(last[::-1].argmin())
        while row or place:
            here = rows[row][place]
            if row and place:
                is_equal = ids[row - 1] == self._reference[place - 1]
                if here == rows[row - 1][place - 1] + (not is_equal):
                    row, place = row - 1, place - 1
                    yield Step(row, place, is_equal)
                    continue
            if row and here == rows[row - 1][place] + 1:
                row -= 1
                yield Step(row, place, is_inserted=True)
            else:
                place -= 1
                yield Step(None, place)

    def _update(self, ids: list[int]) -> None:
        """Compute the rows of the words after those that the last text shares."""
        pairs = enumerate(zip(self._words, ids, strict=False))
        fewest = min(len(self._words), len(ids))
        shared = next((place for place, (old, new) in pairs if old != new), fewest)
        del self._rows[shared + 1 :]
        for number in ids[shared:]:
            above = self._rows[-1]
            row = above + 1
            np.minimum(row[1:], above[:-1] + (self._reference_ids != number), out=row[1:])
            # A reference word left out costs 1 more than the best place before it.
            self._rows.append(np.minimum.accumulate(row - self._places) + self._places)
        self._words = ids


def screen_errors(reference: Sequence[TimedWord], screens: Sequence[Screen], delay_s: float) -> int:
    """Return the word errors on the screen, each word judged `delay_s` after its end."""
    aligner = PrefixAligner([word.text for word in reference])
    middles_s = [(word.start_s + word.end_s) / 2 for word in reference]
    times_s = [screen.at_s for screen in screens]
    errors = 0

    def screen_of(index: int) -> int:
        return bisect_right(times_s, reference[index].end_s + delay_s) - 1

    for place, group in groupby(range(len(reference)), key=screen_of):
        judged = list(group)
        errors += len(judged)
        if place < 0:
            continue
        screen = screens[place]
        ended = bisect_left(middles_s, screen.ended_until_s)
        for step in aligner.steps_back(screen.words, ended):
            if step.reference < judged[0]:
                break
            if step.reference <= judged[-1]:
                errors += step.is_inserted - step.is_equal
    return errors
