"""The words of a text, and what the punctuation model sees of each."""

import re
import unicodedata
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PADDING = 0
UNKNOWN = 1
FIRST_WORD = 2
"""Id of the vocabulary's first word."""
BUCKETS = 8192
"""Ids that hashed beginnings and ends of words share, after those of the vocabulary."""
FEATURES = 7
"""Ids of a word: itself, its first 2 and 3 letters, its last 1, 2, 3 and 4."""

_TOKEN = re.compile(r"\S+")
_CORE = re.compile(r"[^\W_](?:.*[^\W_])?", re.DOTALL)
_DIGIT = re.compile(r"\d")
_APOSTROPHES = str.maketrans({"\u2019": "'", "\u02bc": "'", "\u2018": "'"})


class Word(NamedTuple):
    """A word and where it stands, in characters of the text."""

    start: int
    """First character, quotes and brackets included."""
    end: int
    core_start: int
    """First letter or digit."""
    core_end: int
    """After the last letter or digit."""


def words_of(text: str) -> list[Word]:
    """Return what stands between spaces and has a letter or a digit."""
    found = []
    for token in _TOKEN.finditer(text):
        core = _CORE.search(token.group())
        if core:
            start = token.start()
            found.append(Word(start, token.end(), start + core.start(), start + core.end()))
    return found


@lru_cache(maxsize=65536)
def plain(word: str) -> str:
    """Return a word in lower case without accents, its digits as 0.

    >>> plain("Café\u2019s"), plain("1984")
    ("cafe's", '0000')
    """
    letters = unicodedata.normalize("NFKD", word.translate(_APOSTROPHES).lower())
    letters = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return _DIGIT.sub("0", letters)


class Vocabulary:
    def __init__(self, words: Sequence[str]) -> None:
        """`words` are as `plain` returns them."""
        self.words = tuple(words)
        self._ids: Mapping[str, int] = {
            word: index for index, word in enumerate(words, start=FIRST_WORD)
        }
        self._cached = lru_cache(maxsize=65536)(self._features)

    @property
    def size(self) -> int:
        """Ids of words and of buckets."""
        return FIRST_WORD + len(self.words) + BUCKETS

    def features(self, words: Sequence[str]) -> NDArray[np.int32]:
        """Return int32 `[N, FEATURES]`: what the model sees of words as `plain` returns them."""
        rows = [self._cached(word) for word in words]
        return np.array(rows, np.int32).reshape(len(rows), FEATURES)

    def _features(self, word: str) -> tuple[int, ...]:
        first = FIRST_WORD + len(self.words)
        parts = (f"<{word[:2]}", f"<{word[:3]}", *(f"{word[-n:]}>{n}" for n in (1, 2, 3, 4)))
        hashed = (first + zlib.crc32(part.encode()) % BUCKETS for part in parts)
        return (self._ids.get(word, UNKNOWN), *hashed)
