"""The list of hotwords: names that a split speaks of, among names that are never said; pure.

A name is a word that a spelling dictionary has in no form without a capital letter. So references
in upper case, as LibriSpeech's are, have names too. A few rare words are left among them that no
dictionary knows.
"""

import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from conch.scoring.error_rates import ENGLISH_WORDS
from conch.scoring.manifest import ManifestEntry

SEED = 22
LEAST_LETTERS = 4
"""Of a name: shorter ones are parts of abbreviations, and sound like many words."""
_NAME = re.compile(r"[a-z]+")
_DERIVED = re.compile(
    r".{3,}(?:ed|ing|ly|ness(?:es)?|[ai]tions?|ments?|able|ous|less|ful|[aei]sm|i[sz]es?)"
)
"""Forms of words that dictionaries leave out because they are rare."""


@dataclass(frozen=True, slots=True)
class Names:
    """The list of hotwords of a measurement, in lower case."""

    said: tuple[str, ...]
    """Names of the references."""
    distractors: tuple[str, ...]
    """Names that are never said."""

    @property
    def hotwords(self) -> str:
        """Value of the option `hotwords`, in an order that does not show which are said."""
        return ",".join(self._all())

    @property
    def prompt(self) -> str:
        """Value of the option `prompt`: the names in a row, as a text has them."""
        return f"{', '.join(self._all())}."

    def _all(self) -> list[str]:
        return [name.capitalize() for name in sorted({*self.said, *self.distractors})]


def chosen_names(
    spoken: Sequence[ManifestEntry],
    training: Sequence[ManifestEntry],
    is_word: Callable[[str], bool],
    said: int,
    distractors: int,
) -> Names:
    """Return the same list for the same manifest; it is shorter if there are too few names.

    Names that are said are in none of `training`, whose other names are the distractors. `is_word`
    tells whether a dictionary has a word that is in lower case.
    """
    here, there = words_of(spoken), words_of(training)
    draw = random.Random(SEED)
    return Names(
        _drawn(draw, here - there, is_word, said),
        _drawn(draw, there - here, is_word, distractors),
    )


def words_of(utterances: Iterable[ManifestEntry]) -> set[str]:
    return {word for item in utterances for word in ENGLISH_WORDS.tokens(item.text)}


def is_name(word: str, is_word: Callable[[str], bool]) -> bool:
    """Return whether a word in lower case is a name.

    >>> known = {"tree", "mead", "labor"}.__contains__
    >>> [is_name(word, known) for word in ("trevelyan", "meads", "unclosed", "labours", "d'arcy")]
    [True, False, False, False, False]
    """
    if len(word) < LEAST_LETTERS or not _NAME.fullmatch(word) or _DERIVED.fullmatch(word):
        return False
    # The normaliser spells as Americans do, and would tear some words apart.
    spelled = ENGLISH_WORDS.normalized(word)
    return spelled == word and not any(map(is_word, (word, word.removesuffix("s"))))


def _drawn(
    draw: random.Random, words: Iterable[str], is_word: Callable[[str], bool], count: int
) -> tuple[str, ...]:
    names = sorted(word for word in words if is_name(word, is_word))
    return tuple(sorted(draw.sample(names, min(count, len(names)))))
