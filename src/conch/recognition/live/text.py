"""The text of an open utterance: firm words, tentative ones, and the newest of the first pass.

Each rolling pass is the text of the latest audio. A word becomes firm when the pass before agrees
on it, or the first pass, and so do all words before it. The agreement of successive passes is
LocalAgreement-2 (Macháček et al., 2023, https://arxiv.org/abs/2307.14743). The first pass is a
second opinion on the same audio, so that most words need not wait for another pass.

Nothing here calls a component.
"""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile, takewhile, zip_longest

from conch.recognition.word_alignment import NEAR_S, align, is_same, middle
from conch.wire.result import Segment, Word, text_of_words

CUT_S = 0.15
"""Least audio that a pass must have heard after a word that the first pass makes firm."""
WHOLE_S = 0.12
"""Audio without a letter after which the last word of the first pass is whole."""
CONTEXT_S = 2.5
"""Firm text that a pass hears again, in seconds: the new text begins behind it."""
FRESH_S = 0.2
"""The first pass shows words that a rolling pass left out, if their middle is at most so far
before the end of its audio."""
JOINT_WORDS = 7
"""Words before the end of a pass that are aligned with the first pass, to find its newest words."""
TEXT_AND_TIME, TEXT_MOSTLY = 0.7, 0.3
"""Weights of times in an alignment: of two models, and of two passes of one model."""
MOST_WORDS_PER_S, FREE_WORDS = 7.0, 3
"""A pass with more words than this a second, plus the free ones, is refused. Fast speech has 4."""
FEW_WORDS, LEAST_SHARE, MOST_SHARE = 4, 0.5, 1.5
"""A pass with more than MOST_SHARE times the words of the first pass, plus FREE_WORDS, is refused.
If the first pass has FEW_WORDS or more, so is one with less than LEAST_SHARE times as many."""
MOST_REPEATS, MOST_REPEATED_WORDS = 3, 5
"""A pass that repeats a phrase more often in a row, with more words in all, is refused. A speaker
may well spell a number with four equal digits."""
LONGEST_PHRASE = 4
"""Words of a phrase that is counted."""
_SENTENCE_ENDS = ".!?…。！？"  # noqa: RUF001


@dataclass(frozen=True, slots=True)
class LiveText:
    """The text of an open utterance by its passes; frozen: each pass gives a new one."""

    firm: tuple[Word, ...] = ()
    """Words that stay until the utterance ends."""
    tentative: tuple[Word, ...] = ()
    """Words of the latest pass after the firm ones."""
    pass_end_s: float = 0.0
    """End of the audio of the latest pass, in seconds; 0 before the first one."""

    def window_start(self, start: float) -> float:
        """Return where the next pass has to begin; `start` is that of the speech, in seconds."""
        if not self.firm:
            return start
        before = [word for word in self.firm if word.start <= self.firm[-1].end - CONTEXT_S]
        return max(start, before[-1].start - 0.05) if before else start

    def expected(self, begins: float, first_pass: Sequence[Word], until: float) -> tuple[str, str]:
        """Return the firm text from `begins` on, and what probably follows it.

        The first pass has read up to `until`. Times are in seconds.
        """
        firm = [*dropwhile(lambda word: word.start < begins, self.firm)]
        tentative, newest = self.shown(first_pass, until, in_speech=True)
        return text_of_words(firm), text_of_words((*tentative, *newest))

    def after_pass(
        self, words: Sequence[Word], begins: float, ends: float, first_pass: Sequence[Word]
    ) -> "LiveText":
        """Return the text after a pass over the audio from `begins` to `ends`, in seconds."""
        since = self.firm[-1].end - CONTEXT_S if self.firm else 0.0
        anchor = [word for word in self.firm if word.end > max(begins + 0.1, since)]
        words = [word for word in words if word.end > since - NEAR_S]
        known = align(anchor, words, TEXT_MOSTLY).end
        new = [word for word in words[known:] if not self.firm or word.end > self.firm[-1].start]
        agreed = _agreed(new, self.tentative)
        seconds = _since(first_pass, self.firm[-1].end - 0.1 if self.firm else 0.0)
        pairs = align(new, seconds, TEXT_AND_TIME).pairs
        is_seconded = [
            index in pairs
            and is_same(word, seconds[pairs[index]])
            and word.end <= ends - CUT_S
            and index < len(new) - 1
            for index, word in enumerate(new)
        ]
        is_firm = map(operator.or_, agreed, is_seconded)
        count = sum(1 for _ in takewhile(bool, is_firm))
        return LiveText((*self.firm, *new[:count]), tuple(new[count:]), ends)

    def shown(
        self, first_pass: Sequence[Word], until: float, *, in_speech: bool
    ) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
        """Return the tentative words and the newest ones, as clients show them.

        The first pass has read up to `until` seconds. `in_speech` is true if there is speech at the
        end of the latest pass's audio.
        """
        whole = whole_words(first_pass, until)
        known = (*self.firm, *self.tentative)
        if not known:
            return (), tuple(whole)
        joint = known[-JOINT_WORDS:]
        near = _since(whole, joint[0].start - 0.3)
        pairs, end = align(joint, near, TEXT_AND_TIME)
        tentative = self.tentative
        last = pairs.get(len(joint) - 1)
        has_more = last is not None and near[last].end > self.pass_end_s
        if last is not None and has_more and tentative and not is_same(tentative[-1], near[last]):
            # The first pass has read more of this word.
            tentative, end = tentative[:-1], last
        since = max(known[-1].end - 0.5, self.pass_end_s - FRESH_S)
        newest = tuple(word for word in near[end:] if middle(word) > since)
        if tentative and (in_speech or newest):
            # A pass ends a sentence wherever its audio ends.
            text = tentative[-1].text.rstrip(_SENTENCE_ENDS)
            tentative = (*tentative[:-1], replace(tentative[-1], text=text))
        return tentative, newest


def with_live_text(
    segment: Segment, text: LiveText, first_pass: Sequence[Word], *, has_words: bool
) -> Segment:
    """Return an ended utterance with the text that the passes over it have found.

    `segment` has the text of the first pass, whose words are `first_pass`; none without one.
    """
    if not text.pass_end_s:
        return segment
    tentative, newest = text.shown(first_pass, math.inf, in_speech=False)
    words = (*text.firm, *tentative, *newest)
    best = replace(segment.nbest[0], text=text_of_words(words))
    nbest = (best, *segment.nbest[1:])
    return replace(segment, nbest=nbest, words=words if has_words else ())


def whole_words(words: Sequence[Word], until: float) -> Sequence[Word]:
    """Return words of the first pass without the last, if it may go on after `until` seconds."""
    return words[:-1] if words and words[-1].end > until - WHOLE_S else words


def is_credible(
    words: Sequence[Word], begins: float, ends: float, first_pass: Sequence[Word]
) -> bool:
    """Return whether to believe a pass; arguments as of `LiveText.after_pass`.

    Its text must not repeat itself, nor have more words than anyone speaks, nor leave out most of
    what the first pass has heard.
    """
    if len(words) > MOST_WORDS_PER_S * (ends - begins) + FREE_WORDS:
        return False
    expected = [word for word in first_pass if begins < middle(word) < ends - CUT_S]
    if first_pass and len(words) > MOST_SHARE * len(expected) + FREE_WORDS:
        return False
    if len(expected) >= FEW_WORDS and len(words) < LEAST_SHARE * len(expected):
        return False
    for length in range(1, LONGEST_PHRASE + 1):
        repeats = _most_repeats(words, length)
        if repeats > MOST_REPEATS and repeats * length > MOST_REPEATED_WORDS:
            return False
    return True


def _most_repeats(words: Sequence[Word], length: int) -> int:
    most = run = 0
    for index in range(length, len(words)):
        run = run + 1 if is_same(words[index], words[index - length]) else 0
        most = max(most, run // length + 1)
    return most


def _agreed(new: Sequence[Word], before: Sequence[Word]) -> list[bool]:
    """Return for each new word whether the pass before has it too, at the same place.

    The last word counts only with its punctuation: a pass ends a sentence where its audio ends.
    """
    both = zip_longest(new, before[: len(new)])
    return [
        other is not None
        and (word.text == other.text if index == len(new) - 1 else is_same(word, other))
        for index, (word, other) in enumerate(both)
    ]


def _since(words: Sequence[Word], start: float) -> list[Word]:
    return [word for word in words if word.end > start]
