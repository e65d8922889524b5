"""Output units of CTC models, and the conversion of texts to units."""

from collections.abc import Sequence
from typing import Any, Protocol

import tokenizers

_CHARACTERS = " 'abcdefghijklmnopqrstuvwxyz"


class Units(Protocol):
    """A vocabulary. Texts are words in lower case, as of `language_model_words`."""

    vocab: tuple[str, ...]
    """Text of each unit, empty for the blank. A space separates words."""
    stack: int
    """Number of encoder frames of 20 ms per output frame."""

    def encode(self, text: str) -> list[int]:
        """Return the units of a text, without characters that have no unit."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return a dict from which `units_from_dict` makes the same units."""
        ...


def opens_words(vocab: Sequence[str]) -> bool:
    """Return whether spaces belong to the unit after them, instead of being units themselves."""
    return any(len(unit) > 1 for unit in vocab)


class Characters(Units):
    """Units of space, apostrophe and a to z, every 20 ms."""

    vocab = ("", *_CHARACTERS)
    stack = 1

    def encode(self, text: str) -> list[int]:
        return [_CHARACTERS.index(item) + 1 for item in text if item in _CHARACTERS]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "characters"}


class Subwords(Units):
    """Byte-pair units with a space at the start of words, every 40 ms."""

    stack = 2

    def __init__(self, tokenizer: str) -> None:
        """Read a tokenizer, JSON of the package `tokenizers`."""
        self._json = tokenizer
        self._tokenizer = tokenizers.Tokenizer.from_str(tokenizer)
        size = self._tokenizer.get_vocab_size()
        pieces = [str(self._tokenizer.id_to_token(index)) for index in range(size)]
        self.vocab = ("", *(piece.replace("▁", " ") for piece in pieces))

    def encode(self, text: str) -> list[int]:
        return [index + 1 for index in self._tokenizer.encode(text).ids]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "subwords", "tokenizer": self._json}


def units_from_dict(values: dict[str, Any]) -> Units:
    """Return the units that `to_dict` described."""
    return Characters() if values["kind"] == "characters" else Subwords(values["tokenizer"])
