"""The network that sets punctuation and capitals, and what it sees of the words of a text."""

import json
import re
import unicodedata
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conch.component import FloatArray
from conch.component.onnx import open_network
from conch.wire.errors import ConfigError

PADDING = 0
UNKNOWN = 1
FIRST_WORD = 2
BUCKETS = 8192
"""Ids that hashed beginnings and ends of words share, after those of the vocabulary."""
FEATURES = 7
"""Ids of a word: itself, its first 2 and 3 letters, its last 1, 2, 3 and 4."""
_TOKEN = re.compile(r"\S+")
_CORE = re.compile(r"[^\W_](?:.*[^\W_])?", re.DOTALL)
_DIGIT = re.compile(r"\d")
_APOSTROPHES = str.maketrans({"\u2019": "'", "\u02bc": "'", "\u2018": "'"})
SHIPPED = Path(__file__).parent / "weights" / "punctuation-en.onnx"
MARKS = ("", ",", ".", "?")
"""Marks after a word, in the order of the network's outputs."""
LOWER, CAPITAL, UPPER = range(3)
"""Cases of a word, in the order of the network's outputs after MARKS."""
_WINDOW = 128
"""Words of a window that count; those of its context do not."""
_BATCH_WORDS = 2048


class WordSpan(NamedTuple):
    """A word and where it stands, in characters of the text."""

    start: int
    """First character, quotes and brackets included."""
    end: int
    core_start: int
    """First letter or digit."""
    core_end: int
    """After the last letter or digit."""


def words_of(text: str) -> list[WordSpan]:
    """Return what stands between spaces and has a letter or a digit."""
    words = []
    for token in _TOKEN.finditer(text):
        core = _CORE.search(token.group())
        if core:
            start = token.start()
            words.append(WordSpan(start, token.end(), start + core.start(), start + core.end()))
    return words


@lru_cache(maxsize=65536)
def plain(word: str) -> str:
    """Return a word in lower case without accents, its digits as 0.

    >>> plain("Café\u2019s"), plain("1984")
    ("cafe's", '0000')
    """
    letters = unicodedata.normalize("NFKD", word.translate(_APOSTROPHES).lower())
    letters = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return _DIGIT.sub("0", letters)


class HashedVocabulary:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PunctuatorConfig:
    model: str = ""
    language: str = "en"
    intra_threads: int = 1  # the network is too small for more


class WordLabels(NamedTuple):
    marks: NDArray[np.int64]
    """`[N]`, of MARKS."""
    cases: NDArray[np.int64]
    """`[N]`: LOWER, CAPITAL or UPPER."""


class Window(NamedTuple):
    text: int
    start: int
    """First word that the network sees."""
    end: int
    """After the last word that it sees."""
    first: int
    """First word whose labels count."""
    last: int
    """After the last word whose labels count."""


class PunctuationModel:
    def __init__(self, config: PunctuatorConfig) -> None:
        path = Path(config.model) if config.model else SHIPPED
        self._session = open_network("the punctuation model", path, config.intra_threads)
        described = self._session.get_modelmeta().custom_metadata_map
        try:
            self._vocabulary = HashedVocabulary(json.loads(described["words"]))
            self.inside: dict[str, str] = json.loads(described["inside"])
            self._reach, self._end = int(described["reach"]), float(described["end"])
        except (KeyError, ValueError) as error:
            raise ConfigError(
                f"{path} is not a graph of lab.training.punctuation.export: it lacks {error}"
            ) from error

    def label(self, texts: Sequence[Sequence[str]]) -> list[WordLabels]:
        """Return the labels of each text's words; windows overlap so far that they change none."""
        labels = [
            WordLabels(np.zeros(len(words), np.int64), np.zeros(len(words), np.int64))
            for words in texts
        ]
        features = [self._vocabulary.features([plain(word) for word in words]) for words in texts]
        for batch in batches_of([len(words) for words in texts], self._reach):
            longest = max(window.end - window.start for window in batch)
            rows = np.zeros((len(batch), longest, FEATURES), np.int32)
            for row, window in zip(rows, batch, strict=True):
                row[: window.end - window.start] = features[window.text][window.start : window.end]
            logits: FloatArray = self._session.run(["logits"], {"features": rows})[0]
            for row, window in zip(logits, batch, strict=True):
                if window.last == len(texts[window.text]):
                    # Speech is cut at a pause, which a book has not.
                    row[window.last - window.start - 1, 0] -= self._end
                whole = slice(window.first, window.last)
                part = row[window.first - window.start : window.last - window.start]
                labels[window.text].marks[whole] = part[:, : len(MARKS)].argmax(-1)
                labels[window.text].cases[whole] = part[:, len(MARKS) :].argmax(-1)
        return labels


def windows_of(lens: Sequence[int], reach: int) -> Iterator[Window]:
    """Yield windows over texts of `lens` words; labels depend on `reach` words on each side."""
    for text, words in enumerate(lens):
        for first in range(0, words, _WINDOW):
            last = min(first + _WINDOW, words)
            yield Window(text, max(0, first - reach), min(words, last + reach), first, last)


def batches_of(lens: Sequence[int], reach: int) -> Iterator[list[Window]]:
    """Yield the windows, similar lengths together, at most `_BATCH_WORDS` words at a time."""
    left = iter(sorted(windows_of(lens, reach), key=lambda window: window.start - window.end))
    for longest in left:
        rows = max(1, _BATCH_WORDS // (longest.end - longest.start))
        yield [longest, *islice(left, rows - 1)]
