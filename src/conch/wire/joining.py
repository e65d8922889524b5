"""Texts of any script: join them with or without spaces, count words, and find repetition.

Chinese, Japanese, Thai, Lao, Burmese and Khmer put no space between words.
"""

import re
import unicodedata
import zlib
from collections.abc import Iterable, Sequence

_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\u2e80-\u312f\u3190-\ua4cf\uaa60-\uaa7f"
    "\uf900-\ufaff\ufe30-\ufe4f\uff01-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003ffff]"
)
"""Characters of scripts without spaces. Hangul is none of them: Korean words have spaces."""
_OWN_SPACE = re.compile(
    "[\u3000-\u3003\u3008-\u3011\u3014-\u301f\u3030\u30fb\ufe30-\ufe4f\uff01-\uff0f\uff1a-\uff20"
    "\uff3b-\uff3d\uff3f\uff5b-\uff65]"
)
"""Wide punctuation, whose glyphs hold the space next to them."""
_BEGINS_NONE = re.compile(
    "[\u0e2f\u0e30\u0e32\u0e33\u0e45\u0eaf\u0eb0\u0eb2\u0eb3"
    "ぁぃぅぇぉっゃゅょゎゕゖァィゥェォッャュョヮヵヶ\u31f0-\u31ff]"
)
"""Vowels of Thai and Lao that are written after their consonant, and small kana."""
_ENDS_NONE = re.compile("[\u0e40-\u0e44\u0ec0-\u0ec4\u1039\u17d2]")
"""Vowels of Thai and Lao that are written before their consonant, and signs that stack two."""


def joined_text(texts: Iterable[str]) -> str:
    """Return texts as one; those that are empty are left out.

    >>> joined_text(["Good", "", "day."])
    'Good day.'
    >>> joined_text(["我", "用", "Python", "写"])
    '我用 Python 写'
    """
    parts: list[str] = []
    for text in texts:
        if text:
            parts += (separator(parts[-1], text), text) if parts else (text,)
    return "".join(parts)


def separator(before: str, after: str) -> str:
    """Return what stands between two texts: a space, or nothing.

    Nothing stands between two letters of scripts without spaces, whatever punctuation is there, nor
    next to wide punctuation.
    """
    if not before or not after or _OWN_SPACE.match(before[-1]) or _OWN_SPACE.match(after[0]):
        return ""
    return "" if is_unspaced(reversed(before)) and is_unspaced(after) else " "


def is_within_word(before: str, after: str) -> bool:
    """Return whether two pieces of text without a space may be of one word, as `Py` and `thon`.

    A character of a script without spaces begins a word, and so does what follows it. Characters of
    one syllable belong together.
    """
    if before and after and is_within_syllable(before[-1], after[0]):
        return True
    return not (is_unspaced(reversed(before)) or is_unspaced(after))


def is_within_syllable(before: str, after: str) -> bool:
    """Return whether two characters stay on one line, where each character may begin one."""
    is_mark = unicodedata.category(after) in ("Mn", "Mc", "Me", "Lm")
    # After a full stop, any character begins a line.
    is_after_letter = unicodedata.category(before)[0] in "LMN"
    joins = is_after_letter and (is_mark or _BEGINS_NONE.match(after))
    return bool(joins or _ENDS_NONE.match(before))


def num_words(text: str) -> int:
    """Return the number of words in a text; each letter of a script without spaces is one.

    >>> num_words("“我”用 Python!")
    3
    """
    words = _UNSPACED.sub(lambda char: f" {char[0]} ", text).split()
    return sum(any(map(str.isalnum, word)) for word in words)


def separators(text: str, words: Sequence[str]) -> list[str]:
    """Return what stands before each word in a text: a space, or nothing; nothing for the first.

    Where the words are not those of the text, the rule of `separator` holds.
    """
    spaces, end = [], 0
    for word in words:
        start = end
        while start < len(text) and text[start].isspace():
            start += 1
        if not word or not text.startswith(word, start):
            return ["", *map(separator, words, words[1:])][: len(words)]
        spaces.append(" " if start > end and end else "")
        end = start + len(word)
    return spaces


def has_unspaced(text: str) -> bool:
    """Return whether a text has letters of scripts without spaces."""
    return _UNSPACED.search(text) is not None


def is_unspaced(chars: Iterable[str]) -> bool:
    """Return whether the first character that is no punctuation is of a script without spaces."""
    for char in chars:
        if _UNSPACED.match(char):
            return True
        if unicodedata.category(char)[0] not in "PM" and unicodedata.category(char) != "Cf":
            return False
    return False


def compression_ratio(text: str) -> float:
    """Return the compression ratio of a text by zlib: above 2.4, the text repeats itself."""
    data = text.encode()
    return len(data) / len(zlib.compress(data))
