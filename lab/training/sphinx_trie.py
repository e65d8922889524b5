"""Read the n-grams of pocketsphinx's binary language models, which it cannot list itself.

The format is KenLM's quantised trie (Heafield, "KenLM: Faster and Smaller Language Model
Queries", 2011) with reversed words: a node's word comes before those on the way to it.
"""

import math
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from conch.decoding.ngram.table import NgramOrder, NgramTable, sorted_table
from conch.wire.errors import ConfigError

MAGIC = b"Trie Language Model"
_BINS = 1 << 16
"""Number of values of a quantised number."""
LOG_BASE = math.log(1.0001)
"""Natural log of the base of the file's numbers."""
_UNIGRAM = np.dtype([("log_prob", "<f4"), ("backoff", "<f4"), ("first", "<u4")])


def read_sphinx_trie(path: Path) -> NgramTable:
    """Return the n-grams of a `.lm.bin`."""
    try:
        return _parsed(path.read_bytes())
    except (IndexError, ValueError, struct.error) as error:
        raise ConfigError(f"the language model {path} is broken: {error}") from error


def _parsed(data: bytes) -> NgramTable:
    order = data[len(MAGIC)]
    offset = len(MAGIC) + 1
    counts = struct.unpack_from(f"<{order}I", data, offset)
    if order < 2:
        raise ValueError(f"it is of order {order}, not 2 or more")
    offset += 4 * order + 4  # an unused number, once the kind of quantisation
    tables = []
    for _ in range(2 * (order - 1) - 1):  # of log_probs and backoffs; the longest have no backoff
        tables.append(LOG_BASE * np.frombuffer(data, "<f4", _BINS, offset).astype(np.float64))
        offset += 4 * _BINS
    unigrams = np.frombuffer(data, _UNIGRAM, counts[0] + 1, offset)
    offset += unigrams.nbytes
    orders = [
        NgramOrder(
            np.arange(counts[0])[:, np.newaxis],
            LOG_BASE * unigrams["log_prob"][:-1].astype(np.float64),
            LOG_BASE * unigrams["backoff"][:-1].astype(np.float64),
        )
    ]
    words, firsts = orders[0].words, unigrams["first"].astype(np.int64)
    for number in range(2, order + 1):
        count, is_longest = counts[number - 1], number == order
        word_bits = counts[0].bit_length()
        next_bits = 0 if is_longest else counts[number].bit_length()
        total_bits = word_bits + (16 if is_longest else 32) + next_bits
        size = ((1 + count) * total_bits + 7) // 8 + 8
        packed = np.frombuffer(data, np.uint8, size, offset)
        offset += size
        parents = np.repeat(np.arange(len(words)), np.diff(firsts))
        used = len(parents)  # room was made for n-grams that the file's maker then left out
        if used > count:
            raise ValueError(f"it holds {used} {number}-grams, not {count}")
        starts = np.arange(used + 1) * total_bits
        # Words come newest first on the way down, so the node's own word goes in front.
        words = np.column_stack([_bits(packed, starts[:-1], word_bits), words[parents]])
        values = starts[:-1] + word_bits
        if is_longest:
            log_probs = tables[-1][_bits(packed, values, 16)]
            backoffs = np.zeros(used)
        else:
            backoffs = tables[2 * number - 3][_bits(packed, values, 16)]
            log_probs = tables[2 * number - 4][_bits(packed, values + 16, 16)]
            firsts = _bits(packed, starts + word_bits + 32, next_bits)
        orders.append(NgramOrder(words, log_probs, backoffs))
    (length,) = struct.unpack_from("<I", data, offset)
    texts = data[offset + 4 : offset + 4 + length - 1].decode().split("\0")
    if len(texts) != counts[0]:
        raise ValueError(f"it holds {len(texts)} words, not {counts[0]}")
    return sorted_table(texts, orders)


def _bits(packed: NDArray[np.uint8], starts: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """Return numbers of up to 25 bits, lowest bit first, that start at the given bits."""
    value = np.zeros(len(starts), np.int64)
    for byte in range(4):
        value |= packed[(starts >> 3) + byte].astype(np.int64) << (8 * byte)
    return (value >> (starts & 7)) & ((1 << length) - 1)
