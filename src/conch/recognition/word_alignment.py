"""Align the words of two models that hear the same audio, by their letters and times."""

import unicodedata
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

from conch.wire.result import Word

ALONE = 0.7
"""Cost of a word that only one model has. Two words that differ altogether cost more than two
words alone, 1.4, only if their times differ too."""
DIFFERENT = 0.25
"""Cost of two words that are not the same, plus the share of their letters that differs."""
NEAR_S = 0.2
"""Distance of two words' middles that costs nothing, in seconds: two models time a word apart."""
FAR_S = 1.5
"""Distance from which on a larger one costs no more, in seconds."""
_EQUAL = 1e-9


class Aligned(NamedTuple):
    """An alignment of words with the beginning of others."""

    pairs: dict[int, int]
    """Index of the other word, by the index of the word."""
    end: int
    """Number of other words that are aligned; those from here on come after all words."""


def align(words: Sequence[Word], others: Sequence[Word], time_weight: float) -> Aligned:
    """Align words with the beginning of others at the least cost, as edit distance does.

    The audio of the last others may be later. `time_weight` is the cost of each second beyond
    `NEAR_S` between the middles of two words.
    """
    costs = [[column * ALONE for column in range(len(others) + 1)]]
    for word in words:
        above, row = costs[-1], [costs[-1][0] + ALONE]
        for column, other in enumerate(others):
            paired = above[column] + _cost(word, other, time_weight)
            row.append(min(paired, above[column + 1] + ALONE, row[column] + ALONE))
        costs.append(row)
    last = costs[-1]
    # Of equal costs the further end: there the same word is found behind one that is new, and it is
    # not left alone.
    least = min(last) + _EQUAL
    end = column = max(index for index, cost in enumerate(last) if cost <= least)
    row_index, pairs = len(words), {}
    while row_index and column:
        here = costs[row_index][column]
        if here == costs[row_index - 1][column] + ALONE:
            row_index -= 1
        elif here == costs[row_index][column - 1] + ALONE:
            column -= 1
        else:
            row_index, column = row_index - 1, column - 1
            pairs[row_index] = column
    return Aligned(pairs, end)


def is_same(word: Word, other: Word) -> bool:
    """Return whether two words have the same letters, whatever their case and punctuation."""
    same = letters(word.text)
    return same == letters(other.text) if same else word.text == other.text


@lru_cache(maxsize=10_000)
def letters(text: str) -> str:
    """Return the letters, marks and digits of a text, in lower case."""
    return "".join(char for char in text.casefold() if unicodedata.category(char)[0] in "LMN")


def middle(word: Word) -> float:
    return (word.start + word.end) / 2


def _cost(word: Word, other: Word, time_weight: float) -> float:
    apart_s = min(FAR_S, max(0.0, abs(middle(word) - middle(other)) - NEAR_S))
    return _difference(letters(word.text), letters(other.text)) + time_weight * apart_s


@lru_cache(maxsize=10_000)
def _difference(text: str, other: str) -> float:
    if text == other:
        return 0.0
    return DIFFERENT + 1 - SequenceMatcher(None, text, other, autojunk=False).ratio()
