"""Spellings of words in the units of a CTC model."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from conch.decoding.units import Units, opens_words
from conch.wire.errors import ConfigError

Lexicon = tuple[tuple[str, str], ...]
"""Words, each with its letters; a word may have several spellings."""


def own_spellings(words: Iterable[str], units: Units) -> Lexicon:
    """Return the words that units can write, but not `<unk>`, each spelled in the units' case."""
    letters = letters_of(units.vocab)
    spelled = ((word, units.cased(word)) for word in words if word and word[0] != "<")
    return tuple(item for item in spelled if letters.issuperset(item[1]))


def read_lexicon(path: Path, vocab: Sequence[str]) -> Lexicon:
    """Return the lexicon of a text file, which has a line for each spelling.

    A line is a word, white space and letters. A word alone is spelled as it is written.
    """
    letters = letters_of(vocab)
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"the lexicon {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"the lexicon {path} is not UTF-8: {error}") from error
    spellings: dict[tuple[str, str], None] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        parts = line.split()
        if not parts:
            continue
        if len(parts) > 2:
            raise ConfigError(
                f"the lexicon {path}, line {number}: a word and its letters without spaces between"
                f" them are expected, not {line!r}"
            )
        for letter in parts[-1]:
            if letter not in letters:
                raise ConfigError(
                    f"the lexicon {path}, line {number}: {letter!r} in {parts[-1]!r} is not in the"
                    f" model's vocabulary {''.join(sorted(letters))!r}"
                )
        spellings[parts[0], parts[-1]] = None
    if not spellings:
        raise ConfigError(f"the lexicon {path} has no words")
    return tuple(spellings)


def unit_spellings(lexicon: Lexicon, units: Units) -> list[tuple[str, tuple[int, ...]]]:
    """Return the words of a lexicon, each with the units that write it.

    If units are single characters, the space after a word closes its spelling. Otherwise the unit
    that begins a word holds the space.
    """
    closing = () if opens_words(units.vocab) else (units.vocab.index(" "),)
    return [(word, (*units.encode(letters), *closing)) for word, letters in lexicon]


def letters_of(vocab: Sequence[str]) -> frozenset[str]:
    """Return the characters that a vocabulary writes words with."""
    letters = frozenset("".join(vocab))
    if not vocab or vocab[0] or " " not in letters:
        raise ConfigError(
            "decoding graphs are for a vocabulary of the blank, then units with spaces between "
            f"words; is: {list(vocab)[:40]}"
        )
    if len(set(vocab)) < len(vocab):
        raise ConfigError(f"the vocabulary has a unit twice: {list(vocab)[:40]}")
    return letters - {" "}
