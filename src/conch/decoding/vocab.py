"""The units of a CTC vocabulary, and the words that they write."""

from collections.abc import Iterable, Sequence

from conch.decoding.hypothesis import AlignedWord, Piece, spelled_words
from conch.decoding.written import WrittenUnits
from conch.families.ctc import BLANK
from conch.families.ctc.units import SPECIAL
from conch.families.ctc.vocabulary import Vocabulary
from conch.wire.errors import ConfigError
from conch.wire.joining import has_unspaced, joined_text

Spelled = tuple[int, int, float]
"""A unit, its frame, and its log probability there."""


class CtcVocab:
    """The texts of a model's units; the first is the blank, an empty text."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        """Take the texts.

        Raises:
            ConfigError: the first is not the blank, another is empty, two are the same, or one
                has a space after its beginning.
        """
        if not texts or texts[BLANK]:
            raise ConfigError(f"vocab must begin with the blank, '', has: {texts[:1]!r}")
        if len(set(texts)) < len(texts):
            raise ConfigError("vocab must hold every unit once")
        for text in texts:
            if " " in text[1:]:
                raise ConfigError(f"vocab takes a space at a unit's beginning only; has: {text!r}")
        self.texts = texts

    @property
    def space(self) -> int | None:
        """The unit that is a space."""
        return self.texts.index(" ") if " " in self.texts else None

    def text_of(self, units: Sequence[int]) -> str:
        """Return the text of some units, its words separated by single spaces."""
        return " ".join("".join([self.texts[unit] for unit in units]).split())

    def words(self, spelled: Iterable[Spelled]) -> tuple[AlignedWord, ...]:
        """Return the words that units write."""
        return spelled_words(
            Piece(self.texts[unit], frame, frame + 1, log_prob) for unit, frame, log_prob in spelled
        )

    def complete(self, units: Sequence[int]) -> str:
        """Return the text of the words of some units that no further unit changes."""
        opens = [place for place, unit in enumerate(units) if self.texts[unit].startswith(" ")]
        # What follows the last space may still grow.
        return self.text_of(units[: opens[-1]]) if opens else ""

    def num_complete(self, units: Sequence[int]) -> int:
        """Return the number of words of `complete`."""
        return len(self.complete(units).split())


class ExportedVocab(CtcVocab):
    """The units of an export, which may be letters of scripts without spaces, or bytes."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Take the units.

        Raises:
            ConfigError: see `CtcVocab`.
        """
        super().__init__(vocabulary.texts)
        symbols = vocabulary.symbols
        units = ["" if SPECIAL.fullmatch(text) else text for text in symbols]
        self._units = WrittenUnits(units)

    def text_of(self, units: Sequence[int]) -> str:
        """See `CtcVocab`; words of scripts without spaces have none between them."""
        letters = self._units.letters(units)
        if not has_unspaced(letters):  # in a twentieth of the time
            return " ".join(letters.split())
        return joined_text(word.text for word in self.words((unit, 0, 0.0) for unit in units))

    def words(self, spelled: Iterable[Spelled]) -> tuple[AlignedWord, ...]:
        """See `CtcVocab`; each letter of a script without spaces is a word."""
        return self._units.words(spelled)

    def complete(self, units: Sequence[int]) -> str:
        """See `CtcVocab`."""
        words = self.words((unit, 0, 0.0) for unit in units)
        return joined_text(word.text for word in words[:-1])

    def num_complete(self, units: Sequence[int]) -> int:
        """See `CtcVocab`."""
        return max(0, len(self.words((unit, 0, 0.0) for unit in units)) - 1)


def vocab_of(vocabulary: Vocabulary) -> CtcVocab:
    """Return the units of a model.

    Raises:
        ConfigError: see `CtcVocab`.
    """
    return ExportedVocab(vocabulary) if vocabulary.symbols else CtcVocab(vocabulary.texts)
