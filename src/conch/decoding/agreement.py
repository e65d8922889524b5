"""Stable words of a search that does not tell which of its words are stable.

Local agreement (Liu et al., 2020, https://arxiv.org/abs/2005.11185; Macháček et al., 2023,
https://arxiv.org/abs/2307.14743) keeps the words with which two best texts in a row begin,
whatever the search finds later.
"""

import math
from collections.abc import Sequence

from conch.wire.result import Word


class LocalAgreement:
    """The words of one utterance that two texts in a row agree on."""

    def __init__(self) -> None:
        """Begin an utterance without words."""
        self.kept: tuple[Word, ...] = ()
        """The stable words."""
        self._last: tuple[Word, ...] = ()

    @property
    def text(self) -> str:
        """The stable words as a text."""
        return " ".join(word.text for word in self.kept)

    @property
    def end_s(self) -> float:
        """End of the stable words in seconds from the utterance's start."""
        return self.kept[-1].end if self.kept else 0.0

    def update(self, words: Sequence[Word], most_s: float = math.inf) -> tuple[Word, ...]:
        """Take the words of the next best text; return the words to show.

        The last word of a text may still grow and is not kept yet.

        Args:
            words: of the text.
            most_s: words that end later may change in the search itself, and are not kept yet.
        """
        shown = self.spliced(words)
        agreed = 0
        for one, other in zip(shown[:-1], self._last, strict=False):
            if one.text != other.text or one.end > most_s:
                break
            agreed += 1
        if agreed > len(self.kept):
            self.kept = shown[:agreed]
        self._last = shown
        return shown

    def spliced(self, words: Sequence[Word]) -> tuple[Word, ...]:
        """Return the kept words, followed by those of `words` that come after them."""
        if not self.kept:
            return tuple(words)
        # Compare the middle of words: the frames of the same word differ from text to text.
        end = self.kept[-1].end
        rest = (word for word in words if (word.start + word.end) / 2 > end)
        return (*self.kept, *rest)
