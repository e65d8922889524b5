"""How right, how early and how steady the text on the screen of a live stream is.

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
from lab.live.shown import Line, Screen


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
        """Start with the rows of the empty text.

        Args:
            reference: normalised words.
        """
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

        Args:
            words: normalised words.
            least: number of reference words that are not free at the end.
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
        shared = shared_beginning(self._words, ids)
        del self._rows[shared + 1 :]
        for number in ids[shared:]:
            above = self._rows[-1]
            row = above + 1
            np.minimum(row[1:], above[:-1] + (self._reference_ids != number), out=row[1:])
            # A reference word left out costs 1 more than the best place before it.
            self._rows.append(np.minimum.accumulate(row - self._places) + self._places)
        self._words = ids


def screen_errors(reference: Sequence[TimedWord], screens: Sequence[Screen], delay_s: float) -> int:
    """Return the word errors on the screen; see the module.

    Args:
        reference: words of the stream with times on its clock, in order.
        screens: what was shown, in order of time.
        delay_s: time from a word's end until it is judged, in seconds.
    """
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


def firm_lags_s(reference: Sequence[TimedWord], screens: Sequence[Screen]) -> list[float]:
    """Return how long after it was spoken each firm word became firm, in seconds.

    The k-th word of an utterance becomes firm with the first answer that has k firm words of it;
    all words of its final text are firm. It is aligned with the reference as `screen_errors` does
    it. A word that has no equal reference word then is left out.

    Args:
        reference: words of the stream with times on its clock, in order.
        screens: what was shown, in order of time.
    """
    aligner = PrefixAligner([word.text for word in reference])
    middles_s = [(word.start_s + word.end_s) / 2 for word in reference]
    known: list[int] = []
    lags_s = []
    for screen in screens:
        known += [0] * (len(screen.lines) - len(known))
        new: set[int] = set()
        offset = 0
        for index, line in enumerate(screen.lines):
            new.update(range(offset + known[index], offset + line.num_firm))
            known[index] = max(known[index], line.num_firm)
            offset += len(line.words)
        if not new:
            continue
        ended = bisect_left(middles_s, screen.ended_until_s)
        first = min(new)
        for step in aligner.steps_back(screen.words, ended):
            if step.word is not None and step.word < first:
                break
            if step.is_equal and step.word in new:
                lags_s.append(screen.at_s - reference[step.reference].end_s)
    return lags_s


@dataclass(frozen=True, slots=True)
class Revisions:
    """The counts behind the shares of revised words."""

    revised: int = 0
    """Words on the screen that the next text of their utterance replaced or removed."""
    words: int = 0
    """Words of the last texts of all utterances."""
    firm_revised: int = 0
    """Firm words that the final text of their utterance replaced or removed."""
    firm: int = 0
    """Words that were firm before the final text of their utterance."""

    def __add__(self, other: "Revisions") -> "Revisions":
        return Revisions(
            self.revised + other.revised,
            self.words + other.words,
            self.firm_revised + other.firm_revised,
            self.firm + other.firm,
        )


def revisions(screens: Sequence[Screen]) -> Revisions:
    """Return the counts of revised words of a stream.

    Each text of an utterance is aligned with its next one, as `screen_errors` aligns it with a
    reference. Words without an equal one are revised. A word that changes twice counts twice.
    """
    counts = Revisions(words=len(screens[-1].words)) if screens else Revisions()
    before: tuple[Line, ...] = ()
    for screen in screens:
        for old, new in zip(before, screen.lines, strict=False):
            if old is not new:
                counts += _line_revisions(old, new)
        before = screen.lines
    return counts


def _line_revisions(old: Line, new: Line) -> Revisions:
    is_final = new.is_final and not old.is_final
    return Revisions(
        revised=_num_changed(old.words, new.words),
        firm_revised=_num_changed(old.words[: old.num_firm], new.words) if is_final else 0,
        firm=old.num_firm if is_final else 0,
    )


def _num_changed(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many words of a text have no equal word in the next one."""
    shared = shared_beginning(old, new)
    rest = old[shared:]
    steps = PrefixAligner(new[shared:]).steps_back(rest) if rest else ()
    return len(rest) - sum(step.is_equal for step in steps)


def shared_beginning(one: Sequence[object], other: Sequence[object]) -> int:
    """Return how many of the first items of two sequences are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))
