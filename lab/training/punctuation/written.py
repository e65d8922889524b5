"""Texts as they are printed, to words as they are heard and the marks that a listener sets."""

import re
import unicodedata
from typing import NamedTuple

from conch.families.punctuation.model import CAPITAL, LOWER, MARKS, UPPER
from conch.language import spelled

# fmt: off
_ABBREVIATIONS = {
    "Mr": "Mister", "Mrs": "Missus", "Ms": "Ms", "Dr": "Doctor", "St": "Saint", "Prof": "Professor",
    "Capt": "Captain", "Col": "Colonel", "Gen": "General", "Lieut": "Lieutenant",
    "Lt": "Lieutenant", "Sgt": "Sergeant", "Rev": "Reverend", "Hon": "Honorable", "Esq": "Esquire",
    "Jr": "Junior", "Sr": "Senior", "Messrs": "Messrs", "etc": "etcetera", "vs": "versus",
    "Mme": "Madame", "Mlle": "Mademoiselle", "Gov": "Governor", "Sen": "Senator", "Co": "Company",
}
# fmt: on
# fmt: off
_STARTERS = frozenset({
    "a", "an", "and", "are", "as", "at", "but", "by", "can", "could", "did", "do", "does", "for",
    "had", "has", "have", "he", "her", "his", "how", "if", "in", "is", "it", "its", "may", "my",
    "no", "not", "now", "of", "oh", "on", "once", "or", "our", "she", "should", "so", "some",
    "such", "that", "the", "their", "them", "then", "there", "these", "they", "this", "those",
    "thus", "to", "was", "we", "well", "were", "what", "when", "where", "which", "while", "who",
    "whom", "whose", "why", "will", "with", "would", "yes", "yet", "you", "your",
})
# fmt: on
"""With a capital after a dash they begin a sentence; a name does not."""
_ABBREVIATION = re.compile(rf"\b({'|'.join(_ABBREVIATIONS)})\.")
_INITIALS = re.compile(r"\b(?:[A-HJ-Z]|[A-Za-z](?=\.\s?[A-Za-z]\b\.))\.(?:\s?[A-Za-z]\b\.)*")
_QUOTES = re.compile(r"[\"“”„«»()\[\]{}*_]|(?<!\w)['\u2018\u2019]|['\u2018\u2019](?!\w)")
_LONG_DASH = re.compile(r"\s*(?:[—\u2015⸺⸻]|--+|\s[\u2013-]\s)\s*")
_ELLIPSIS = re.compile(r"\s*(?:…|\.\s*\.\s*\.(?:\s*\.)*)\s*")
_TOKEN = re.compile(r"\d[\d,]*(?:\.\d+)?(?:st|nd|rd|th|s)?\b|[^\W_]+(?:'[^\W_]+)*|[.,?!;:]")
_INVISIBLE = re.compile(r"[\u00ad\u2060\u200b\ufeff]")
_SIGNS = ".,?!;:"
_SPELLED = re.compile(r"\d[\d,]*(?:\.\d+)?(?:st|nd|rd|th|s)?")
_SYMBOLS = str.maketrans(
    {"\u2019": "'", "\u02bc": "'", "&": " and ", "%": " percent ", "-": " ", "\u2011": " "}
)


class PrintedWord(NamedTuple):
    """A word, its case and the mark after it."""

    word: str
    case: int
    mark: int


def printed_words(paragraph: str, spell: bool = True, whole: bool = True) -> list[PrintedWord]:
    """Return the words of a printed paragraph; `spell` turns numbers in digits into words.

    Quotes and brackets go, dashes and semicolons are commas, and an exclamation is a sentence
    where the next word has a capital. Titles are spelled. A `whole` text ends a sentence, whatever
    its last mark.
    """
    text = _INVISIBLE.sub("", unicodedata.normalize("NFC", paragraph)).replace("\u00a0", " ")
    text = _ABBREVIATION.sub(lambda match: _ABBREVIATIONS[match.group(1)], text)
    text = _INITIALS.sub(lambda match: " ".join(re.findall(r"\w", match.group())), text)
    text = _ELLIPSIS.sub(" ; ", _LONG_DASH.sub(" ; ", text))
    text = _QUOTES.sub(" ", text).translate(_SYMBOLS)
    tokens = _TOKEN.findall(text)
    printed: list[PrintedWord] = []
    for index, token in enumerate(tokens):
        following = tokens[index + 1] if index + 1 < len(tokens) else ""
        if token[0] not in _SIGNS:
            words = spelled(token) if spell and _SPELLED.fullmatch(token) else [token]
            printed += [PrintedWord(word, case_of(word), 0) for word in words]
        elif printed:
            mark = _mark(token, following)
            # "Well?--" and "said he;" keep the stronger one of two marks.
            if mark > printed[-1].mark:
                printed[-1] = printed[-1]._replace(mark=mark)
    if whole and printed and printed[-1].mark == MARKS.index(","):
        printed[-1] = printed[-1]._replace(mark=MARKS.index("."))
    return printed


def case_of(word: str) -> int:
    """Return LOWER, CAPITAL for a first capital, or UPPER for capitals alone."""
    letters = [letter for letter in word if letter.isalpha()]
    if not letters or not letters[0].isupper():
        return LOWER
    return UPPER if len(letters) > 1 and "".join(letters).isupper() and "'" not in word else CAPITAL


def _mark(token: str, following: str) -> int:
    is_end = (
        not following or following in _SIGNS or following[:1].isupper() or following[:1].isdigit()
    )
    if token == "?":
        return MARKS.index("?")
    if token == ".":
        return MARKS.index(".") if is_end else 0
    if token == "!":
        return MARKS.index("." if is_end else ",")
    if token == ";" and following[:1].isupper() and following.lower() in _STARTERS:
        return MARKS.index(".")
    return MARKS.index(",")


def line_of(words: list[PrintedWord]) -> str:
    """Return a line of a training text: words with their marks, as `words_of_line` reads them."""
    return " ".join(item.word + MARKS[item.mark] for item in words)


def words_of_line(line: str) -> list[PrintedWord]:
    """Return the words of a line of a training text."""
    words = []
    for token in line.split():
        word = token.rstrip(",.?")
        words.append(PrintedWord(word, case_of(word), MARKS.index(token[len(word) :])))
    return words
