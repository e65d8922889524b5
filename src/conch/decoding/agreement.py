"""Firm words out of a search that does not tell which ones it is sure of.

Local agreement (Liu et al., 2020, https://arxiv.org/abs/2005.11185; Macháček et al., 2023,
https://arxiv.org/abs/2307.14743): words with which two best texts in a row begin are kept from then
on, whatever the search says later.
"""

from collections.abc import Sequence

from conch.wire.result import Word


class LocalAgreement:
    """The words of one utterance that are kept."""

    def __init__(self) -> None:
        """Keep none."""
        self.kept: tuple[Word, ...] = ()
        self._last: tuple[Word, ...] = ()

    def update(self, words: Sequence[Word]) -> tuple[Word, ...]:
        """Take the words of the next best text and return them as they are to be shown.

        The last word of a text may still grow and is not kept yet.
        """
        shown = self.spliced(words)
        agreed = 0
        for one, other in zip(shown[:-1], self._last, strict=False):
            if one.text != other.text:
                break
            agreed += 1
        if agreed > len(self.kept):
            self.kept = shown[:agreed]
        self._last = shown
        return shown

    def spliced(self, words: Sequence[Word]) -> tuple[Word, ...]:
        """Return the words that are kept and, of these, the ones that begin after them."""
        if not self.kept:
            return tuple(words)
        # A word counts by its middle: the same word is not found at quite the same frames again.
        end = self.kept[-1].end
        rest = (word for word in words if (word.start + word.end) / 2 > end)
        return (*self.kept, *rest)
