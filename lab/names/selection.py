"""The hotwords of the measurement: rare words that were said, among many that were not."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from conch.bench.manifest import Utterance
from conch.language.arpa import read_ngrams
from conch.language.ngram import model_path
from conch.language.normalize import language_model_words
from conch.wire.errors import BenchError

LEAST_LETTERS = 4
RANK = 30_000
"""Words of the language model that are not rare, by frequency."""


@dataclass(frozen=True, slots=True)
class Names:
    """What is listed as hotwords."""

    said: tuple[str, ...]
    """Rare words of the references, in lower case: most are names."""
    others: tuple[str, ...]
    """Rare words that no reference has."""

    @property
    def hotwords(self) -> str:
        """The option of all requests."""
        return ",".join(sorted((*self.said, *self.others)))


def names_of(
    utterances: Sequence[Utterance],
    elsewhere: Sequence[Utterance],
    *,
    said: int,
    others: int,
    frequent: frozenset[str],
    seed: int = 0,
) -> Names:
    """Choose names at random; the same arguments give the same names.

    Args:
        utterances: Those to recognise.
        elsewhere: Others, whose rare words are the distractors.
        said: Number of names that are in the references.
        others: Number of distractors.
        frequent: Words that are not rare.
        seed: Of the choice.

    Raises:
        BenchError: there are too few rare words.
    """

    def rare(items: Sequence[Utterance]) -> set[str]:
        words = {word for item in items for word in language_model_words(item.text)}
        long = {word for word in words if len(word) >= LEAST_LETTERS and word.isalpha()}
        return long - frequent

    every = {word for item in utterances for word in language_model_words(item.text)}
    spoken, distractors = sorted(rare(utterances)), sorted(rare(elsewhere) - every)
    for found, wanted, what in ((spoken, said, "--said"), (distractors, others, "--others")):
        if len(found) < wanted:
            raise BenchError(f"{what} {wanted}: the manifest has {len(found)} such rare words")
    choice = random.Random(seed)
    return Names(
        tuple(sorted(choice.sample(spoken, said))),
        tuple(sorted(choice.sample(distractors, others))),
    )


def frequent_words(rank: int = RANK) -> frozenset[str]:
    """Return the most frequent words of the en-us trigram."""
    table = read_ngrams(model_path(""))
    order = np.argsort(-table.orders[0].log_probs, kind="stable")
    return frozenset(table.words[index] for index in order[:rank])
