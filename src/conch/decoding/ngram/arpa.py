"""Read n-gram models: the ARPA format, or the packed format of `conch.decoding.ngram.packed`."""

import gzip
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO, cast

import numpy as np

from conch.component.parameters import existing
from conch.decoding.ngram.packed import is_packed, read_packed
from conch.decoding.ngram.table import (
    SENTENCE_END,
    SENTENCE_START,
    NgramOrder,
    NgramTable,
    sorted_table,
)
from conch.wire.errors import ConfigError

_LOG_10 = math.log(10)
_GZIP = b"\x1f\x8b"


def read_ngrams(path: Path, progress: Callable[[str], None] = lambda text: None) -> NgramTable:
    """Return the n-grams of an ARPA file or a packed one; `progress` gets a text for each step."""
    existing(path, "the language model")
    table = read_packed(path) if is_packed(path) else _read_arpa(path, progress)
    for word in (SENTENCE_START, SENTENCE_END):
        if word not in table.words:
            raise ConfigError(f"the language model {path} has no {word}")
    return table


def _read_arpa(path: Path, progress: Callable[[str], None]) -> NgramTable:
    with path.open("rb") as file:
        is_zipped = file.read(2) == _GZIP
    opened = gzip.open if is_zipped else open
    try:
        with opened(path, "rt", encoding="utf-8") as file:
            return _Reader(cast(TextIO, file), progress).table()
    except (EOFError, OSError, UnicodeDecodeError, ValueError) as error:
        raise ConfigError(f"the language model {path} is not an ARPA file: {error}") from error


class _Reader:
    def __init__(self, file: TextIO, progress: Callable[[str], None]) -> None:
        self._lines = self._numbered(file)
        self._progress = progress
        self._number = 0
        self._indices: dict[str, int] = {}

    def table(self) -> NgramTable:
        for line in self._lines:
            if line == "\\data\\":
                break
        else:
            raise ValueError("it has no line \\data\\")
        counts = []
        for line in self._lines:
            if not line.startswith("ngram "):
                break
            counts.append(int(line.split("=")[1]))
        if not counts:
            raise ValueError(f"line {self._number}: the numbers of n-grams are expected")
        orders = []
        for number, count in enumerate(counts, start=1):
            if line != f"\\{number}-grams:":
                raise ValueError(f"line {self._number}: \\{number}-grams: is expected, not {line}")
            self._progress(f"reading {count} {number}-grams")
            order, line = self._order(number, count)
            orders.append(order)
        if line != "\\end\\":
            raise ValueError(f"line {self._number}: \\end\\ is expected, not {line!r}")
        return sorted_table(tuple(self._indices), orders)

    def _numbered(self, file: TextIO) -> Iterator[str]:
        for number, line in enumerate(file, start=1):
            text = line.strip()
            if text:
                self._number = number
                yield text

    def _order(self, number: int, count: int) -> tuple[NgramOrder, str]:
        words = np.empty((count, number), np.int64)
        values = np.zeros((2, count))
        line, row = "", 0
        for line in self._lines:
            if line.startswith("\\"):
                break
            parts = line.split()
            if row == count or len(parts) not in (number + 1, number + 2):
                raise ValueError(f"line {self._number}: {count} {number}-grams are expected")
            names = parts[1 : number + 1]
            if number == 1:
                self._indices.setdefault(names[0], len(self._indices))
            try:
                words[row] = [self._indices[name] for name in names]
            except KeyError as error:
                raise ValueError(f"line {self._number}: {error} is no unigram") from None
            values[0, row] = float(parts[0])
            values[1, row] = float(parts[-1]) if len(parts) == number + 2 else 0.0
            row += 1
        if row < count or (number == 1 and len(self._indices) < count):
            raise ValueError(f"line {self._number}: {count} {number}-grams are expected")
        log_probs, backoffs = _LOG_10 * values
        return NgramOrder(words, log_probs, backoffs), line
