"""The hotwords of a request: phrases that a text is to have, each with a weight."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from conch.wire.errors import OptionError
from conch.wire.limits import MAX_HOTWORD_TEXT

MAX_HOTWORDS = 2000
MAX_HOTWORD_LENGTH = 100
MAX_HOTWORD_WEIGHT = 100.0
DEFAULT_HOTWORD_WEIGHT = 8.0
MAX_NAMES_TOKENS = 220
"""Tokens of names in a prompt: Whisper reads 223 before a transcript."""
_SEPARATORS = re.compile("[\n,،、，]")  # noqa: RUF001
_COLONS = re.compile("[:：]")  # noqa: RUF001


@dataclass(frozen=True, slots=True)
class Hotword:
    """A phrase that the text prefers where it may have been said."""

    phrase: str
    weight: float
    """Nats by which a phrase of ten letters is preferred; a shorter or longer one has its share."""


@lru_cache(maxsize=16)
def hotwords_of(text: str, weight: float, option: str = "hotwords") -> tuple[Hotword, ...]:
    """Return phrases separated by commas or line ends; a colon and a weight may follow a phrase.

    The commas and colons of other scripts count too. `weight` is that of a phrase without its own,
    `option` what errors name.

    >>> [(item.phrase, item.weight) for item in hotwords_of("Conch:8, Triton  server", 5.0)]
    [('Conch', 8.0), ('Triton server', 5.0)]
    """
    if len(text) > MAX_HOTWORD_TEXT:
        raise OptionError.of(option, f"at most {MAX_HOTWORD_TEXT} characters", len(text))
    if not text.strip():
        return ()
    hotwords = tuple(_hotword(item, weight, option) for item in _SEPARATORS.split(text))
    if len(hotwords) > MAX_HOTWORDS:
        raise OptionError.of(option, f"at most {MAX_HOTWORDS} phrases", len(hotwords))
    return hotwords


def prompt_of(names: Sequence[Hotword]) -> str:
    """Return names as the text before a transcript: a list, which fits every language.

    It ends before Whisper reads no more of it, and leaves names of weight 0 out. A list in capitals
    gets small letters: as a style, it puts other names in.

    >>> prompt_of(hotwords_of("Syme, SAN JOSE:12, H100", 8.0))
    'Syme, SAN JOSE, H100.'
    >>> prompt_of(hotwords_of("O'BRIEN, MCDONALD'S", 8.0))
    "O'Brien, Mcdonald's."
    """
    phrases = [item.phrase for item in names if item.weight > 0]
    if all(map(str.isupper, phrases)):
        # title() makes a word of what follows an apostrophe, which fits O'Brien and no genitive.
        phrases = [re.sub(r"(['\u2019])S\b", r"\1s", phrase.title()) for phrase in phrases]
    sizes = accumulate(map(_most_tokens, phrases))
    fitting = [item for item, size in zip(phrases, sizes, strict=True) if size <= MAX_NAMES_TOKENS]
    return f"{', '.join(fitting)}." if fitting else ""


def _most_tokens(phrase: str) -> float:
    """Return the most tokens that Whisper makes of a phrase with a comma and a space.

    A token is a byte at least. The 40 names with the shortest tokens of 2,000 have 0.59 a letter.
    """
    plain = phrase.replace(" ", "")
    is_name = plain.isascii() and plain.isalpha() and not plain.isupper()
    return (0.6 if is_name else 1) * (len(phrase.encode()) + 2)


def as_ctc_writes(phrases: str) -> str:
    r"""Return phrases in the letters of a CTC model: lower case, with straight apostrophes.

    >>> as_ctc_writes("O\u2019Brien")
    "o'brien"
    """
    return phrases.lower().replace("\u2019", "'")


def _hotword(item: str, weight: float, option: str) -> Hotword:
    phrase, *own = _COLONS.split(item, maxsplit=1)
    words = " ".join(phrase.split())
    if not words:
        raise OptionError.of(option, "phrases separated by commas, none of them empty", item)
    if len(words) > MAX_HOTWORD_LENGTH:
        takes = f"phrases of at most {MAX_HOTWORD_LENGTH} characters"
        raise OptionError.of(option, takes, words)
    try:
        hotword = Hotword(words, float(own[0]) if own else weight)
    except ValueError:
        raise OptionError.of(option, "a number after a colon", item.strip()) from None
    if not 0 <= hotword.weight <= MAX_HOTWORD_WEIGHT:
        takes = f"weights from 0 to {MAX_HOTWORD_WEIGHT:g}"
        raise OptionError.of(option, takes, hotword.weight)
    return hotword
