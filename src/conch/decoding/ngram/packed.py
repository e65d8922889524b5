"""N-grams packed into an `.npz`: four million of them in 15 MB, read in a quarter of a second.

Arrays, for each order N from 1 on:

    words           uint8: every word, UTF-8, a line each
    unit            float64 []: nats of one step in which the file counts
    children{N}     uint32: how many n-grams of order N go on each of order N - 1 (not for 1)
    last{N}         uint8 [3, n-grams]: bytes, lowest first, of the last word's index, less that
                    of the n-gram before where both have the same context (not for 1)
    log_prob{N}     uint16: places in log_probs{N}, float32, in units
    backoff{N}      uint16: places in backoffs{N}, float32, in units (not for the longest)

The n-grams of an order stand as in `NgramOrder`, sorted by their words' indices.
"""

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conch.component import IntArray
from conch.decoding.ngram.table import NgramOrder, NgramTable
from conch.wire.errors import ConfigError

_MAGIC = b"PK\x03\x04"
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


def is_packed(path: Path) -> bool:
    """Return whether a file begins as an `.npz`."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


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
