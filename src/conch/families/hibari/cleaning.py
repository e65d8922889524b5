"""Words of a text without what has no reading, and some readings that hibari lacks."""

import re
import unicodedata
from dataclasses import dataclass

_KEPT = frozenset("\u2019\u2018“”—\u2013…€£¥¢°\u00d7÷±½¼¾⅓⅔₹₩µ")
"""Characters beyond ASCII and Latin letters that hibari reads."""
_FRACTIONS = {"½": "a half", "¼": "a quarter", "¾": "three quarters", "⅓": "a third"}
_MIXED = re.compile(rf"(\d+)([{''.join(_FRACTIONS)}])")
_ADDRESS = re.compile(
    r"(?:https?://)?((?:www\.)?[\w-]+(?:\.[\w-]+)*\.[a-z]{2,6}|[\w.+-]+@[\w-]+(?:\.[\w-]+)+)"
    r"(/\S*?)?([.,;:!?)]*)",
    re.IGNORECASE,
)
"""A host or an e-mail address, a path, and the punctuation behind it."""
_TOP_LEVEL = frozenset(
    ("com", "org", "net", "edu", "gov", "io", "de", "uk", "co", "info", "ai", "eu", "dev", "app")
)
_SAID = {
    ".": " dot ",
    "@": " at ",
    "/": " slash ",
    "-": " dash ",
    "_": " underscore ",
    "+": " plus ",
}
_LONG_NUMBER = re.compile(r"\d{16,}")
"""What has no name as a number: its digits are read."""
_SHARP = re.compile(r"\b([A-GFJ])#(?!\w)")


SHOUTED = 3
"""Words of a text in capitals from which on it is a sentence."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word that can be read, and its place in the text."""

    text: str
    start: int
    end: int


def words_of(text: str) -> list[Word]:
    """Return the words of a text that have a reading; spaces and control characters part them.

    A sentence in capitals is not one of abbreviations, whose letters would be read.
    """
    if text.isupper() and len(text.split()) >= SHOUTED:
        text = _lower(text)
    return [
        Word(cleaned, *found.span())
        for found in re.finditer(r"[^\s\x00-\x1f\x7f-\x9f]+", text)
        if (cleaned := readable("".join(map(_character, _composed(found[0])))))
    ]


def readable(word: str) -> str:
    """Return a word as hibari reads it right: addresses, mixed fractions and sharps in words."""
    word = _SHARP.sub(r"\1 sharp", word)
    word = _LONG_NUMBER.sub(lambda found: " ".join(found[0]), word)
    word = _MIXED.sub(lambda found: f"{found[1]} and {_FRACTIONS[found[2]]}", word)
    found = _ADDRESS.fullmatch(word)
    if found and ("@" in found[1] or found[1].rpartition(".")[2].lower() in _TOP_LEVEL):
        address = re.sub(r"^www\.", "w w w.", found[1], flags=re.IGNORECASE) + (found[2] or "")
        said = "".join(_SAID.get(character, character) for character in address.rstrip("/"))
        word = " ".join(said.split()) + found[3]
    return " ".join(word.split())


def _lower(text: str) -> str:
    """Return a text in small letters, each in its place."""
    return "".join(small if len(small := letter.lower()) == 1 else letter for letter in text)


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _character(character: str) -> str:
    """Return what is read of a character: itself, a plainer one, or nothing."""
    if character.isascii() or character in _KEPT:
        return character
    digit = unicodedata.digit(character, None)
    if digit is not None:
        return str(digit)
    plain = unicodedata.normalize("NFKC", character)
    kind = unicodedata.category(character)
    if kind.startswith("L"):
        return plain if all(map(_is_latin, plain)) else ""
    if kind.startswith("Z"):
        return " "
    return plain if plain.isascii() and not kind.startswith("S") else ""


def _is_latin(character: str) -> bool:
    return character.isascii() or unicodedata.name(character, "").startswith("LATIN ")
