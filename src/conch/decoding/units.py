"""Output units of CTC models, and the conversion of texts to units."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import tokenizers

from conch.component import SAMPLE_RATE
from conch.wire.joining import is_unspaced

BLANK = 0
"""Id of the blank, the first unit of every vocabulary."""
ENCODER_FRAME_SAMPLES = 320
"""Samples of one encoder frame: 20 ms."""
ENCODER_FRAME_MS = 1000 * ENCODER_FRAME_SAMPLES // SAMPLE_RATE
SPECIAL = re.compile(r"<(?!0x[0-9A-F]{2}>)[^<>]+>")
"""A symbol that is no text, such as `<unk>`; `<0xE4>` is a byte of one."""
_FREQUENT = 7.0
"""Nats of the most frequent piece, about the logarithm of the sum of 1 / n of some hundred."""
_CHARACTERS = " 'abcdefghijklmnopqrstuvwxyz"


class Units(Protocol):
    """A vocabulary. Texts are words in lower case, as of `language_model_words`."""

    vocab: tuple[str, ...]
    """Text of each unit, empty for the blank. A space separates words."""
    stack: int
    """Number of encoder frames of 20 ms per output frame."""

    def encode(self, text: str) -> list[int]:
        """Return the units of a text, without characters that have no unit."""

    def cased(self, text: str) -> str:
        """Return a text in the case and with the apostrophes in which the units write."""
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return a dict from which `units_from_dict` makes the same units."""


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
        self._json = tokenizer
        self._tokenizer = tokenizers.Tokenizer.from_str(tokenizer)
        size = self._tokenizer.get_vocab_size()
        pieces = [str(self._tokenizer.id_to_token(index)) for index in range(size)]
        self.vocab = ("", *(piece.replace("▁", " ") for piece in pieces))

    def encode(self, text: str) -> list[int]:
        return [index + 1 for index in self._tokenizer.encode(text).ids]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "subwords", "tokenizer": self._json}


class Symbols(Units):
    """Units of an export: pieces of words, letters, or bytes of these.

    A text is cut as by sentencepiece: by byte-pair encoding, of all pieces that two neighbours make
    the one with the least number is made first. Where no two pieces make one of them, the method
    was another, and the most probable pieces count, if words are as frequent as Zipf's law says.
    """

    def __init__(self, symbols: Sequence[str], stack: int) -> None:
        """`symbols` are in the order of their numbers; the first is the blank."""
        self.stack, self._symbols = stack, symbols
        texts = [f" {text[1:]}" if text.startswith("▁") else text for text in symbols[1:]]
        self.vocab = ("", *texts)
        letters = {
            letter for text in texts if not SPECIAL.fullmatch(text) for letter in text.strip()
        }
        is_upper, is_lower = any(map(str.isupper, letters)), any(map(str.islower, letters))
        self._case = {(True, False): str.upper, (False, True): str.lower}.get((is_upper, is_lower))
        self._has_straight = "'" in letters and "\u2019" not in letters
        self._opens = opens_words([text for text in texts if text.startswith(" ")])
        numbers = {text: unit for unit, text in reversed([*enumerate(self.vocab)]) if text}
        self._tokenizer = tokenizers.Tokenizer(_method_of(numbers))

    def cased(self, text: str) -> str:
        if self._has_straight:
            text = text.replace("\u2019", "'")
        return self._case(text) if self._case else text

    def encode(self, text: str) -> list[int]:
        words = self.cased(text).split()
        if self._opens:
            words = [word if is_unspaced(word) else f" {word}" for word in words]
        ids = self._tokenizer.encode(("" if self._opens else " ").join(words)).ids
        return [unit for unit in ids if unit]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "symbols", "symbols": [*self._symbols], "stack": self.stack}


def _method_of(numbers: Mapping[str, int]) -> Any:
    pairs = [
        (text[:cut], text[cut:])
        for text in numbers
        for cut in range(1, len(text))
        if text[:cut] in numbers and text[cut:] in numbers
    ]
    made = {"".join(pair) for pair in pairs}
    if all(text in made for text in numbers if len(text) > 1 and not SPECIAL.fullmatch(text)):
        merges = sorted(pairs, key=lambda pair: numbers["".join(pair)])
        return tokenizers.models.BPE(dict(numbers), merges)
    ranked = sorted(numbers, key=numbers.__getitem__)
    scores = [(text, -math.log(numbers[text]) - _FREQUENT) for text in ranked]
    return tokenizers.models.Unigram([("", -math.inf), *scores], unk_id=0)


def units_from_dict(values: dict[str, Any]) -> Units:
    """Return the units that `to_dict` described."""
    if values["kind"] == "symbols":
        return Symbols(values["symbols"], values["stack"])
    return Characters() if values["kind"] == "characters" else Subwords(values["tokenizer"])
