"""Normalise transcripts to the words of a language model."""

import re
import unicodedata

# Apostrophes stay inside words (don't), after an s (workers') and before a few words. Elsewhere
# they are quotation marks. Digits keep commas and points between them.
_TOKEN = re.compile(
    r"'(?:em|cause|bout|til|n|tis|twas)\b"
    r"|[^\W\d_]+(?:'[^\W\d_]+)*(?:(?<=s)')?"
    r"|\d+(?:,\d{3})*(?:\.\d+)?(?:st|nd|rd|th|s)?"
)
_SYMBOLS = str.maketrans(
    {"%": " percent ", "&": " and ", "+": " plus ", "\u2018": "'", "\u2019": "'"}
)

# fmt: off
ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen",
)
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
# fmt: on
"""Words of the numbers below 20, and of the tens from 20 on."""
_SCALES = ((10**9, "billion"), (10**6, "million"), (1000, "thousand"), (100, "hundred"))
_IRREGULAR_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}


def language_model_words(text: str) -> list[str]:
    """Return a transcript's words in lower case, without punctuation, numbers spelled in English.

    A hyphen separates words, as in most corpora for language models.

    >>> language_model_words("Mr. Smith's 2 well-known dogs weren't there on May 3rd, 1912.")[:6]
    ['mr', "smith's", 'two', 'well', 'known', 'dogs']
    >>> language_model_words("on May 3rd, 1912")
    ['on', 'may', 'third', 'nineteen', 'twelve']
    """
    plain = unicodedata.normalize("NFKC", text).translate(_SYMBOLS).lower()
    words: list[str] = []
    for token in _TOKEN.findall(plain):
        words += spelled(token) if token[0].isdigit() else [token]
    return words


def spelled(number: str) -> list[str]:
    """Return a number as it is read out; it may have commas, a fraction, or an ending as th."""
    match = re.fullmatch(r"([\d,]+)(?:\.(\d+))?(\D*)", number)
    assert match is not None
    digits, fraction, ending = match.groups()
    words = _integer(digits)
    if fraction:
        words += ["point", *(ONES[int(digit)] for digit in fraction)]
    if ending == "s":  # the 1890s
        words[-1] = words[-1][:-1] + "ies" if words[-1].endswith("y") else words[-1] + "s"
    elif ending:
        words[-1] = ordinal(words[-1])
    return words


def _integer(digits: str) -> list[str]:
    value = int(digits.replace(",", ""))
    if (digits.startswith("0") and len(digits) > 1) or value >= 10**12:
        return [ONES[int(digit)] for digit in digits if digit != ","]  # read digit by digit
    if len(digits) == 4 and 1100 <= value < 2000 and value % 1000:  # a year, or as good as one
        century, rest = divmod(value, 100)
        if rest == 0:
            return [*_cardinal(century), "hundred"]
        return [*_cardinal(century), *(["o"] if rest < 10 else []), *_cardinal(rest)]
    return _cardinal(value)


def _cardinal(value: int) -> list[str]:
    for scale, name in _SCALES:
        if value >= scale:
            rest = value % scale
            return [*_cardinal(value // scale), name, *(_cardinal(rest) if rest else [])]
    if value < 20:
        return [ONES[value]]
    ten, one = divmod(value, 10)
    return [TENS[ten - 2], *([ONES[one]] if one else [])]


def ordinal(word: str) -> str:
    if word in _IRREGULAR_ORDINALS:
        return _IRREGULAR_ORDINALS[word]
    return word[:-1] + "ieth" if word.endswith("y") else word + "th"
