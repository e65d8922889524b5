"""What a CTC model writes: its output units, and texts from and to them."""

from collections.abc import Sequence
from typing import Any, Protocol

import tokenizers

_CHARACTERS = " 'abcdefghijklmnopqrstuvwxyz"


class Units(Protocol):
    """A vocabulary; texts are words in lower case as `language_model_words` gives them."""

    vocab: tuple[str, ...]
    """The text of each unit, the blank's empty. A space parts words."""
    stack: int
    """Encoder frames (20 ms) of one output frame."""

    def encode(self, text: str) -> list[int]:
        """Return the units of a text; what they cannot write is left out."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return what `units_from_dict` makes the same units of."""
        ...


def opens_words(vocab: Sequence[str]) -> bool:
    """Return whether spaces are part of the unit that follows them, not units between words."""
    return any(len(unit) > 1 for unit in vocab)


class Characters:
    """Space, apostrophe and a to z, every 20 ms."""

    vocab = ("", *_CHARACTERS)
    stack = 1

    def encode(self, text: str) -> list[int]:
        """Return the units of a text; what they cannot write is left out."""
        return [_CHARACTERS.index(item) + 1 for item in text if item in _CHARACTERS]

    def to_dict(self) -> dict[str, Any]:
        """Return what `units_from_dict` makes the same units of."""
        return {"kind": "characters"}


class Subwords:
    """Byte-pair units that open words with a space, every 40 ms."""

    stack = 2

    def __init__(self, tokenizer: str) -> None:
        """Take a tokenizer in the JSON form of the package `tokenizers`."""
        self._json = tokenizer
        self._tokenizer = tokenizers.Tokenizer.from_str(tokenizer)
        size = self._tokenizer.get_vocab_size()
        pieces = [str(self._tokenizer.id_to_token(index)) for index in range(size)]
        self.vocab = ("", *(piece.replace("▁", " ") for piece in pieces))

    def encode(self, text: str) -> list[int]:
        """Return the units of a text; what they cannot write is left out."""
        return [index + 1 for index in self._tokenizer.encode(text).ids]

    def to_dict(self) -> dict[str, Any]:
        """Return what `units_from_dict` makes the same units of."""
        return {"kind": "subwords", "tokenizer": self._json}


def units_from_dict(values: dict[str, Any]) -> Units:
    """Return the units that a checkpoint names."""
    if values["kind"] == "characters":
        return Characters()
    return Subwords(values["tokenizer"])
