"""Read n-gram models: the ARPA format, or a packed one.

The packed format is an `.npz`: four million n-grams in 15 MB, read in a quarter of a second. Its
arrays, for each order N from 1 on:

    words           uint8: every word, UTF-8, a line each
    unit            float64 []: nats of one step in which the file counts
    children{N}     uint32: how many n-grams of order N go on each of order N - 1 (not for 1)
    last{N}         uint8 [3, n-grams]: bytes, lowest first, of the last word's index, less that
                    of the n-gram before where both have the same context (not for 1)
    log_prob{N}     uint16: places in log_probs{N}, float32, in units
    backoff{N}      uint16: places in backoffs{N}, float32, in units (not for the longest)

The n-grams of an order stand as in `NgramOrder`, sorted by their words' indices.
"""

import gzip
import math
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO, cast

import numpy as np
from numpy.typing import NDArray

from conch.component import IntArray
from conch.component.parameters import existing
from conch.decoding.ngram.table import (
    SENTENCE_END,
    SENTENCE_START,
    NgramOrder,
    NgramTable,
    sorted_table,
)
from conch.wire.errors import ConfigError

_ZIP, _GZIP = b"PK\x03\x04", b"\x1f\x8b"
_BROKEN = (
    EOFError,
    IndexError,
    KeyError,
    NotImplementedError,  # zipfile's, of a compression that it does not know
    OSError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)
_LOG_10 = math.log(10)


def read_ngrams(path: Path, progress: Callable[[str], None] = lambda text: None) -> NgramTable:
    """Return the n-grams of an ARPA file or a packed one; `progress` gets a text for each step."""
    with existing(path, "the language model").open("rb") as file:
        magic = file.read(len(_ZIP))
    if magic == _ZIP:
        table = read_packed(path)
    else:
        table = _read_arpa(path, progress, is_zipped=magic.startswith(_GZIP))
    for word in (SENTENCE_START, SENTENCE_END):
        if word not in table.words:
            raise ConfigError(f"the language model {path} has no {word}")
    return table


def _read_arpa(path: Path, progress: Callable[[str], None], *, is_zipped: bool) -> NgramTable:
    opened = gzip.open if is_zipped else open
    try:
        with opened(path, "rt", encoding="utf-8") as file:
            return _ArpaReader(cast(TextIO, file), progress).table()
    except (EOFError, OSError, UnicodeDecodeError, ValueError) as error:
        raise ConfigError(f"the language model {path} is not an ARPA file: {error}") from error


class _ArpaReader:
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


def read_packed(path: Path) -> NgramTable:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return _unpacked(arrays)
    except _BROKEN as error:
        raise ConfigError(f"the language model {path} is broken: {error}") from error


def _unpacked(arrays: Mapping[str, NDArray[Any]]) -> NgramTable:
    words = arrays["words"].tobytes().decode().split("\n")
    ngrams: IntArray = np.arange(len(words))[:, np.newaxis]
    orders: list[NgramOrder] = []
    while f"log_prob{len(orders) + 1}" in arrays:
        number = len(orders) + 1
        if number > 1:
            ngrams = _longer(ngrams, arrays[f"children{number}"], arrays[f"last{number}"])
            if not ((ngrams[:, -1] >= 0) & (ngrams[:, -1] < len(words))).all():
                raise ValueError(f"its {number}-grams have words that it does not list")
        log_probs = _values(arrays, "log_prob", number)
        is_longest = f"backoff{number}" not in arrays
        backoffs = np.zeros(len(ngrams)) if is_longest else _values(arrays, "backoff", number)
        if not len(ngrams) == len(log_probs) == len(backoffs):
            raise ValueError(f"its {number}-grams differ in number")
        orders.append(NgramOrder(ngrams, log_probs, backoffs))
    if not orders:
        raise ValueError("it holds no n-grams")
    return NgramTable(tuple(words), tuple(orders))


def _longer(contexts: IntArray, children: NDArray[Any], last: NDArray[np.uint8]) -> IntArray:
    """Return int64 `[N, order]`: the n-grams that go on those of the order below."""
    low, middle, high = last.astype(np.int64)
    steps = low + (middle << 8) + (high << 16)
    sums = np.cumsum(steps)
    counts = children[children > 0].astype(np.int64)
    firsts = np.cumsum(counts) - counts
    words = sums - np.repeat((sums - steps)[firsts], counts)
    return np.column_stack([np.repeat(contexts, children, axis=0), words])


def _values(arrays: Mapping[str, NDArray[Any]], name: str, number: int) -> NDArray[np.float64]:
    """Return float64 `[N]` in nats."""
    steps = arrays[f"{name}s{number}"].astype(np.float64) * arrays["unit"]
    return np.asarray(steps[arrays[f"{name}{number}"]])
