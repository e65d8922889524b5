"""Remove from a stream the words that the stream before has already answered."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from conch.session.resume_state import Cut
from conch.wire.joining import is_within_word
from conch.wire.result import OpenUtterance, Segment, Word, text_of_words

NEAR_S = 0.3
"""Seconds by which a repeated word may come later."""


class OverlapRemoval:
    """Removes from the first utterance of a stream the words of the stream before.

    Args:
        cut: Where the stream begins.
        first_index: Index of its first utterance.
        has_words: Whether segments keep their words.
    """

    def __init__(self, cut: Cut, first_index: int, *, has_words: bool) -> None:
        self._cut, self._first_index, self._has_words = cut, first_index, has_words
        self._has_ended = False
        """Whether the first utterance has ended."""
        self._dropped: tuple[str, ...] = ()
        """Words that were last removed from the open utterance."""

    def of_utterance(self, utterance: OpenUtterance) -> OpenUtterance:
        """Return the open utterance without words that are heard again."""
        if self._has_ended:
            return utterance
        count = self._num_repeated(utterance.words)
        self._dropped = tuple(word.text for word in utterance.words[:count])
        parts = []
        for part in (utterance.firm, utterance.tentative, utterance.newest):
            parts.append(part[count:])
            count = max(0, count - len(part))
        firm, tentative, newest = parts
        return replace(utterance, firm=firm, tentative=tentative, newest=newest)

    def of_segment(self, segment: Segment) -> Segment:
        """Return an utterance that has ended without words that are heard again."""
        self._has_ended = True
        words = segment.words if self._has_words else ()
        if segment.index != self._first_index or not self._cut.until_s:
            return replace(segment, words=words)
        if segment.words:
            count = self._num_repeated(segment.words)
            dropped = tuple(word.text for word in segment.words[:count])
        else:
            # Without times, remove only the words removed before, or repeated word for word.
            dropped = max(
                (self._dropped, self._cut.overlap), key=lambda it: _same(it, segment.text)
            )
            dropped = dropped[: _same(dropped, segment.text)]
            count = 0
        best, *others = [
            replace(item, text=without_first(item.text, dropped)) for item in segment.nbest
        ]
        if text_of_words(segment.words) == segment.text:
            best = replace(best, text=text_of_words(segment.words[count:]))
        start = min(segment.end, max(segment.start, self._cut.until_s))
        return replace(segment, start=start, nbest=(best, *others), words=words[count:])

    def _num_repeated(self, words: Sequence[Word]) -> int:
        """Return how many words at the beginning repeat those of the stream before.

        They lie in the audio that it has answered. The last one may be heard a little later.
        """
        until_s = self._cut.until_s
        count = sum(1 for _ in takewhile(lambda word: _middle(word) < until_s, words))
        last = plain(self._cut.overlap[-1]) if self._cut.overlap else ""
        is_missing = not count or plain(words[count - 1].text) != last
        if is_missing and last and count < len(words) and last == plain(words[count].text):
            count += _middle(words[count]) < until_s + NEAR_S
        return count


def without_first(text: str, words: Sequence[str]) -> str:
    """Return a text without those of the words that it begins with."""
    ends = _ends(words, text)
    return " ".join(text[ends[-1] :].split()) if ends else text


def _same(words: Sequence[str], text: str) -> int:
    """Return how many of the words a text begins with."""
    return len(_ends(words, text))


def _ends(words: Sequence[str], text: str) -> list[int]:
    """Return the end of each of the words that a text begins with, after its punctuation."""
    ends: list[int] = []
    for word in words:
        end = _end_of(plain(word), text, ends[-1] if ends else 0)
        if end is None:
            break
        ends.append(end)
    return ends


def _end_of(word: str, text: str, start: int) -> int | None:
    """Return the end in a text of a plain word that starts at `start`; None for another word."""
    place, found = start, ""
    while place < len(text) and len(found) < len(word) and not (found and text[place].isspace()):
        found += plain(text[place])
        place += 1
    if found != word:
        return None
    while place < len(text) and not text[place].isspace() and not text[place].isalnum():
        place += 1
    is_whole = place == len(text) or text[place].isspace()
    return place if is_whole or not is_within_word(text[:place], text[place:]) else None


def plain(word: str) -> str:
    """Return a word without case and punctuation."""
    return "".join(char for char in word.casefold() if char.isalnum())


def _middle(word: Word) -> float:
    return (word.start + word.end) / 2
