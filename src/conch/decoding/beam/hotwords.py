"""Contextual biasing: an automaton that boosts phrases while they are being said.

A phrase of n units gives a share of its weight with each unit matched. What a match gave is
taken back when it fails, unless another goes on: the automaton of Aho and Corasick ("Efficient
string matching", 1975), with matches that begin and end at the borders of words only.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conch.decoding.beam.arrays import Array, namespace, placed
from conch.decoding.vocab import CtcVocab
from conch.wire.errors import OptionError
from conch.wire.hotwords import Hotword

BETWEEN_WORDS = 0
_UNMATCHED = 1
"""Inside a word that no phrase goes on with."""


class HotwordTables(NamedTuple):
    """The automaton's states over the units of a vocabulary; under the blank nothing moves."""

    following: Array
    """int32 `[states, V]`: the state after a unit."""
    pending: Array
    """float32 `[states, V]`: what phrases matched in part give after a unit, not for good."""
    done: Array
    """float64 `[states]`: what phrases give for good when a word ends here."""


def hotword_tables(
    hotwords: Iterable[Hotword], vocab: CtcVocab, device: str | None
) -> HotwordTables:
    """Build the automaton of some phrases; of one given twice the larger weight counts.

    Raises:
        OptionError: a phrase has a character that the vocabulary has not.
    """
    letters = {letter: index for index, letter in enumerate(sorted({*"".join(vocab.texts), " "}))}
    weights: dict[str, float] = {}
    for hotword in hotwords:
        phrase = " ".join(hotword.phrase.split())
        foreign = sorted({*phrase} - letters.keys())
        if foreign:
            raise OptionError(
                f"option 'hotwords' takes phrases in the model's characters, "
                f"{''.join(letters).strip()!r} and the space; sent: {hotword.phrase!r:.80}, "
                f"which has {foreign[0]!r}"
            )
        weights[phrase] = max(hotword.weight, weights.get(phrase, 0.0))
    table, pending, done = _automaton(weights, letters)
    states = np.arange(len(table), dtype=np.int32)
    following = np.empty((len(states), len(vocab.texts)), np.int32)
    for unit, text in enumerate(vocab.texts):
        state = states
        for letter in text:
            state = table[state, letters[letter]]
        following[:, unit] = state
    return HotwordTables(
        following=placed(following, device),
        pending=placed(pending[following].astype(np.float32), device),
        done=placed(done, device),
    )


def no_hotwords(width: int, device: str | None) -> HotwordTables:
    """Return the automaton of no phrases.

    Args:
        width: of the vocabulary.
        device: as in `arrays.placed`.
    """
    return HotwordTables(
        following=placed(np.zeros((1, width), np.int32), device),
        pending=placed(np.zeros((1, width), np.float32), device),
        done=placed(np.zeros(1), device),
    )


def _automaton(
    weights: dict[str, float], letters: dict[str, int]
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
    """Return `[states, letters]` next states, and what is pending and done in each state."""
    nodes: dict[str, int] = {"": BETWEEN_WORDS}
    levels: list[list[tuple[int, int, int]]] = []
    paths = []
    for phrase in weights:
        path = [BETWEEN_WORDS]
        for length, letter in enumerate(phrase, 1):
            beginning = phrase[:length]
            if beginning not in nodes:
                nodes[beginning] = len(nodes) + 1  # 1 is not a beginning
                if len(levels) < length:
                    levels.append([])
                levels[length - 1].append((path[-1], letters[letter], nodes[beginning]))
            path.append(nodes[beginning])
        paths.append(path[1:])
    count = len(nodes) + 1
    pending, done = np.zeros(count), np.zeros(count)
    for path, weight in zip(paths, weights.values(), strict=True):
        shares = weight * np.arange(1, len(path) + 1) / len(path)
        pending[path] = np.maximum(pending[path], shares)
        done[path[-1]] = weight

    table = np.zeros((count, len(letters)), np.int32)
    table[[BETWEEN_WORDS, _UNMATCHED]] = _UNMATCHED
    table[[BETWEEN_WORDS, _UNMATCHED], letters[" "]] = BETWEEN_WORDS
    # Where a state goes on when it matches no longer: its longest ending that is a beginning.
    fallback = np.full(count, _UNMATCHED)
    for level in levels:
        parents, by, to = np.array(level).T
        first = parents == BETWEEN_WORDS
        fallback[to] = np.where(first, _UNMATCHED, table[fallback[parents], by])
        pending[to] = np.maximum(pending[to], pending[fallback[to]])
        done[to] += done[fallback[to]]
        table[to] = table[fallback[to]]
        table[parents, by] = to
    return table, pending, done


def combined(tables: Sequence[HotwordTables]) -> tuple[HotwordTables, list[int]]:
    """Return several automata as one, and the place of the first state of each."""
    if len(tables) == 1:
        return tables[0], [0]
    starts = []
    following = []
    count = 0
    for item in tables:
        starts.append(count)
        following.append(item.following + count)
        count += len(item.done)
    xp = namespace(tables[0].done)
    return HotwordTables(
        xp.concatenate(following),
        xp.concatenate([item.pending for item in tables]),
        xp.concatenate([item.done for item in tables]),
    ), starts
