"""The units of a CTC vocabulary."""

from collections.abc import Sequence
from dataclasses import dataclass

from conch.families.ctc import BLANK
from conch.wire.errors import ConfigError


@dataclass(frozen=True, slots=True)
class CtcVocab:
    """The texts of a model's units; the first is the blank, an empty text."""

    texts: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check the texts.

        Raises:
            ConfigError: the first is not the blank, another is empty, two are the same, or one
                has a space after its beginning.
        """
        if not self.texts or self.texts[BLANK]:
            raise ConfigError(f"vocab must begin with the blank, '', has: {self.texts[:1]!r}")
        if len(set(self.texts)) < len(self.texts):
            raise ConfigError("vocab must hold every unit once")
        for text in self.texts:
            if " " in text[1:]:
                raise ConfigError(f"vocab takes a space at a unit's beginning only; has: {text!r}")

    @property
    def space(self) -> int | None:
        """The unit that is a space."""
        return self.texts.index(" ") if " " in self.texts else None

    def text_of(self, units: Sequence[int]) -> str:
        """Return the text of some units, its words separated by single spaces."""
        return " ".join("".join([self.texts[unit] for unit in units]).split())
