"""The units of a CTC vocabulary, and the words that they write."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from conch.component import SAMPLE_RATE
from conch.decoding.hypothesis import AlignedWord, Piece, spelled_words
from conch.decoding.units import BLANK, ENCODER_FRAME_SAMPLES, SPECIAL
from conch.decoding.written import WrittenUnits
from conch.wire.errors import ConfigError
from conch.wire.joining import has_unspaced, joined_text

Spelled = tuple[int, int, float]
"""A unit, its frame, and its log probability there."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The output units of a graph."""

    texts: tuple[str, ...]
    """Text of each unit. The first is the blank, with an empty text. A space separates words."""
    stack: int
    """Number of encoder frames per output frame."""
    units: str
    """The units as JSON, for `conch.decoding.units.units_from_dict`."""
    symbols: tuple[str, ...] = ()
    """Symbols of an export, in the order of `texts`; empty for a graph of Conch's recipe."""

    @property
    def silent(self) -> list[int]:
        """Units that are not speech: the blank and the space."""
        return [unit for unit, text in enumerate(self.texts) if not text.strip()]

    @property
    def frame_s(self) -> float:
        return self.stack * ENCODER_FRAME_SAMPLES / SAMPLE_RATE


class CtcVocab:
    """The texts of a model's units; the first is the blank, an empty text."""

    def __init__(self, texts: tuple[str, ...]) -> None:
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
        return self.texts.index(" ") if " " in self.texts else None

    def text_of(self, units: Sequence[int]) -> str:
        """Return the text of some units, its words separated by single spaces."""
        return " ".join("".join([self.texts[unit] for unit in units]).split())

    def words(self, spelled: Iterable[Spelled]) -> tuple[AlignedWord, ...]:
        return spelled_words(
            Piece(self.texts[unit], frame, frame + 1, log_prob) for unit, frame, log_prob in spelled
        )

    def complete(self, units: Sequence[int]) -> str:
        """Return the text of the words of some units that no further unit changes."""
        opens = [place for place, unit in enumerate(units) if self.texts[unit].startswith(" ")]
        # What follows the last space may still grow.
        return self.text_of(units[: opens[-1]]) if opens else ""

    def num_complete(self, units: Sequence[int]) -> int:
        return len(self.complete(units).split())


class ExportedVocab(CtcVocab):
    """The units of an export, which may be letters of scripts without spaces, or bytes."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary.texts)
        symbols = vocabulary.symbols
        units = ["" if SPECIAL.fullmatch(text) else text for text in symbols]
        self._units = WrittenUnits(units)

    def text_of(self, units: Sequence[int]) -> str:
        """Return the text of units; scripts without spaces have none between words."""
        letters = self._units.letters(units)
        if not has_unspaced(letters):  # in a twentieth of the time
            return " ".join(letters.split())
        return joined_text(word.text for word in self.words((unit, 0, 0.0) for unit in units))

    def words(self, spelled: Iterable[Spelled]) -> tuple[AlignedWord, ...]:
        """Return the words of units; each letter of a script without spaces is one."""
        return self._units.words(spelled)

    def complete(self, units: Sequence[int]) -> str:
        words = self.words((unit, 0, 0.0) for unit in units)
        return joined_text(word.text for word in words[:-1])

    def num_complete(self, units: Sequence[int]) -> int:
        return max(0, len(self.words((unit, 0, 0.0) for unit in units)) - 1)


def vocab_of(vocabulary: Vocabulary) -> CtcVocab:
    return ExportedVocab(vocabulary) if vocabulary.symbols else CtcVocab(vocabulary.texts)
