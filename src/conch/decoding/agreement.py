"""Stable words of a search that does not say which of its words are stable.

Local agreement (Liu et al., 2020, https://arxiv.org/abs/2005.11185; Macháček et al., 2023,
https://arxiv.org/abs/2307.14743) keeps the words with which two best texts in a row begin,
whatever the search finds later.
"""

import math
from collections.abc import Sequence

from conch.decoding.hypothesis import AlignedWord
from conch.wire.joining import joined_text


class LocalAgreement:
    """The words of one utterance that two texts in a row agree on."""

    def __init__(self) -> None:
        self.kept: tuple[AlignedWord, ...] = ()
        self._last: tuple[AlignedWord, ...] = ()

    @property
    def text(self) -> str:
        return joined_text(word.text for word in self.kept)

    @property
    def end_frame(self) -> int:
        """The frame after the stable words."""
        return self.kept[-1].end_frame if self.kept else 0

    def update(
        self, words: Sequence[AlignedWord], most_frame: float = math.inf
    ) -> tuple[AlignedWord, ...]:
        """Take the words of the next best text; return the words to show.

        The last word of a text may still grow and is not kept yet. Nor are words that end after
        `most_frame`: they may change in the search itself.
        """
        shown = self.spliced(words)
        agreed = 0
        for one, other in zip(shown[:-1], self._last, strict=False):
            if one.text != other.text or one.end_frame > most_frame:
                break
            agreed += 1
        if agreed > len(self.kept):
            self.kept = shown[:agreed]
        self._last = shown
        return shown

    def spliced(self, words: Sequence[AlignedWord]) -> tuple[AlignedWord, ...]:
        """Return the kept words, followed by those of `words` that come after them."""
        # Compare the middle of words: the frames of the same word differ from text to text.
        rest = (word for word in words if word.start_frame + word.end_frame > 2 * self.end_frame)
        return (*self.kept, *rest)
