"""Reads n-grams from ARPA files and from pocketsphinx's binary tries into arrays."""

import math
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from conch.errors import ConfigError

_MAGIC = b"Trie Language Model"
_QUANT_BITS = 16
# pocketsphinx counts in powers of this.
_LOG_BASE = math.log(1.0001)


@dataclass(frozen=True, slots=True)
class NgramOrder:
    """All n-grams of one length; natural logarithms."""

    words: NDArray[np.int64]
    """`[count, n]`: ids, in the order they are said."""
    log_probs: NDArray[np.float32]
    """`[count]`: of the last word after the others."""
    backoffs: NDArray[np.float32]
    """`[count]`: what a word costs more that was never seen after these; 0 in the longest."""


@dataclass(frozen=True, slots=True)
class Ngrams:
    """A language model as it is written."""

    words: tuple[str, ...]
    """The text of each id."""
    orders: tuple[NgramOrder, ...]
    """Unigrams, in the order of `words`, bigrams, and so on."""


def read_ngrams(path: Path) -> Ngrams:
    """Read an ARPA file or pocketsphinx's `.lm.bin`.

    Raises:
        ConfigError: the file is neither, or is broken.
    """
    data = path.read_bytes()
    try:
        return _read_trie(data) if data.startswith(_MAGIC) else _read_arpa(data)
    except (ValueError, IndexError, KeyError, struct.error) as error:
        raise ConfigError(
            f"the language model {path} is neither ARPA nor a trie of pocketsphinx: {error}"
        ) from error


def _read_arpa(data: bytes) -> Ngrams:
    head, *sections = data.decode().split("-grams:")
    if "\\data\\" not in head or not sections:
        raise ValueError("no \\data\\ section, or no n-grams")
    words: list[str] = []
    ids: dict[str, int] = {}
    orders = []
    for order, section in enumerate(sections, 1):
        lines = [line.split() for line in section.rsplit("\n\\", 1)[0].splitlines() if line.strip()]
        if order == 1:
            words = [line[1] for line in lines]
            ids = {word: index for index, word in enumerate(words)}
        found = np.array([[ids[word] for word in line[1 : 1 + order]] for line in lines], np.int64)
        log_probs = np.array([line[0] for line in lines], np.float64) * math.log(10)
        backoffs = [line[1 + order] if len(line) > 1 + order else "0" for line in lines]
        orders.append(
            NgramOrder(
                found.reshape(-1, order),
                log_probs.astype(np.float32),
                (np.array(backoffs, np.float64) * math.log(10)).astype(np.float32),
            )
        )
    return Ngrams(tuple(words), tuple(orders))


def _read_trie(data: bytes) -> Ngrams:
    """Read the binary trie: n-grams from their last word backwards, bit-packed, quantised.

    After the magic: the order (one byte), the counts (uint32 each), the kind of quantisation and
    its tables (65,536 probabilities and backoffs of each middle order, probabilities of the
    longest), the unigrams (probability, backoff, first bigram), the other orders, the words.
    """
    place = len(_MAGIC)
    order = data[place]
    counts = struct.unpack_from(f"<{order}I", data, place + 1)
    place += 1 + 4 * order
    tables = []
    if order > 1:
        place += 4
        for _ in range(2 * order - 3):
            tables.append(np.frombuffer(data, "<f4", 1 << _QUANT_BITS, place) * _LOG_BASE)
            place += 4 << _QUANT_BITS
    kind = np.dtype([("log_prob", "<f4"), ("backoff", "<f4"), ("next", "<u4")])
    unigrams = np.frombuffer(data, kind, counts[0] + 1, place)
    place += kind.itemsize * (counts[0] + 1)

    one = np.arange(counts[0])[:, None]
    orders = [
        NgramOrder(
            one,
            (unigrams["log_prob"][:-1] * _LOG_BASE).astype(np.float32),
            (unigrams["backoff"][:-1] * _LOG_BASE).astype(np.float32),
        )
    ]
    starts = unigrams["next"].astype(np.int64)
    word_bits = counts[0].bit_length()
    for index in range(1, order):
        longest = index == order - 1
        quant_bits = _QUANT_BITS if longest else 2 * _QUANT_BITS
        next_bits = 0 if longest else counts[index + 1].bit_length()
        total = word_bits + quant_bits + next_bits
        # One more entry closes the last range; eight bytes more may be read.
        packed = np.frombuffer(data, np.uint8, ((1 + counts[index]) * total + 7) // 8 + 8, place)
        place += len(packed)
        # The writer may have left out a few of those it counted.
        count = int(starts[-1])
        entries = np.arange(count + 1) * total
        earlier = _bits(packed, entries, word_bits)[:-1]
        quanta = entries[:-1] + word_bits
        said = np.repeat(orders[-1].words, np.diff(starts), axis=0)
        log_probs = tables[2 * (index - 1)]
        if longest:
            backoffs = np.zeros(count, np.float32)
        else:
            backoffs = tables[2 * index - 1][_bits(packed, quanta, _QUANT_BITS)]
            quanta = quanta + _QUANT_BITS
            starts = _bits(packed, entries + word_bits + quant_bits, next_bits)
        orders.append(
            NgramOrder(
                np.concatenate([earlier[:, None], said], 1),
                log_probs[_bits(packed, quanta, _QUANT_BITS)].astype(np.float32),
                backoffs.astype(np.float32),
            )
        )
    (size,) = struct.unpack_from("<I", data, place)
    words = data[place + 4 : place + 4 + size].decode().split("\0")[: counts[0]]
    if len(words) != counts[0]:
        raise ValueError("the words do not fit the unigrams")
    return Ngrams(tuple(words), tuple(orders))


def _bits(packed: NDArray[np.uint8], places: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the little-endian numbers of `count` bits, at most 32, at places counted in bits."""
    first = places >> 3
    number = np.zeros(len(places), np.int64)
    for byte in range(5):
        number |= packed[first + byte].astype(np.int64) << (8 * byte)
    return (number >> (places & 7)) & ((1 << count) - 1)
