"""The `punctuator` component: punctuation and capitals for texts that have none."""

import re
from collections.abc import Iterator, Mapping, Sequence

from conch.component import Outputs, Row, Span, TextEdit, changed, text_step_outputs
from conch.families.punctuation.model import (
    CAPITAL,
    LOWER,
    MARKS,
    UPPER,
    PunctuationModel,
    PunctuatorConfig,
    WordLabels,
    WordSpan,
    plain,
    words_of,
)
from conch.language import ONES, TENS
from conch.wire.errors import InvalidRequestError

LONGEST_TEXT = 1_000_000
"""Bytes of a text: some hours of speech."""

_MARKED = re.compile(r"[.,?!;:…\u3002\uff0c\uff1f\uff01\u3001\uff1b\uff1a][^\w\s]*$")
_ABBREVIATION = re.compile(r"(?:[^\W\d_]\.)+|[A-Z][^\W\d_]{1,3}\.")
"""Words that have a period in any case, as U.S. and Mr.; a short name at the end of a sentence
looks the same, and only keeps its period."""
_STEM = re.compile(r"([^'\u2019]*)(.*)", re.DOTALL)
_LETTER = re.compile(r"[a-z]")
# fmt: off
_NEVER_NAMES = frozenset({
    "a", "an", "and", "are", "as", "at", "but", "by", "can", "could", "did", "do", "does", "for",
    "had", "has", "have", "he", "her", "his", "how", "if", "in", "is", "it", "its", "my", "no",
    "not", "of", "oh", "on", "or", "our", "she", "should", "so", "some", "such", "that", "the",
    "their", "them", "then", "there", "these", "they", "this", "those", "thus", "to", "was", "we",
    "well", "were", "what", "when", "where", "which", "while", "who", "whom", "whose", "why",
    "with", "would", "yes", "yet", "you", "your",
})
"""Words with a capital only where a text or a sentence begins."""
_CURRENCIES = frozenset({"dollar", "dollars", "euro", "euros"})
# fmt: on
_CENTS = frozenset({*ONES[10:], *TENS})
"""First words of cents: `twenty one dollars fifty` has no comma."""
_ENDS_SENTENCE = (MARKS.index("."), MARKS.index("?"))


class Punctuator:
    """Sets marks after words and the case of words, in texts of one language."""

    def __init__(self, config: PunctuatorConfig) -> None:
        self._model = PunctuationModel(config)
        self._language = config.language

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs]:
        """Answer rows with `text` and perhaps `language`; they share batches."""
        sent = [_sent(row) for row in rows]
        own = [text for text, language in sent if self._is_own(language)]
        punctuated = iter(self.punctuate(own))
        return [
            text_step_outputs(*(next(punctuated) if self._is_own(language) else (text, [])))
            for text, language in sent
        ]

    def punctuate(self, texts: Sequence[str]) -> list[tuple[str, list[Span]]]:
        """Return texts with marks and capitals, and what changed.

        A text stays if it has a mark after a word, except for periods of abbreviations, or no
        letter of the Latin alphabet. A word with a capital or a digit stays too, but for a mark
        after it.
        """
        words = [words_of(text) if is_bare(text) else [] for text in texts]
        cores = [
            [text[word.core_start : word.core_end] for word in own]
            for text, own in zip(texts, words, strict=True)
        ]
        return [
            written(text, own, labels, self._model.inside)
            for text, own, labels in zip(texts, words, self._model.label(cores), strict=True)
        ]

    def _is_own(self, language: str) -> bool:
        return not language or language.lower().replace("_", "-").split("-")[0] == self._language


def is_bare(text: str) -> bool:
    """Return whether a text has no punctuation yet, and words of the Latin alphabet for the most.

    >>> is_bare("it isn't Mr. 3.5"), is_bare("Hello."), is_bare("你好"), is_bare("")
    (True, False, False, False)
    """
    words = text.split()
    latin = sum(any(letter.isascii() and letter.isalnum() for letter in word) for word in words)
    return 2 * latin > len(words) and not any(
        _MARKED.search(word) and not _ABBREVIATION.fullmatch(word) for word in words
    )


def written(
    text: str, words: Sequence[WordSpan], labels: WordLabels, inside: Mapping[str, str]
) -> tuple[str, list[Span]]:
    """Return a text with the marks and cases of its words, and a span for each word that changed.

    A text begins with a capital, and so does what follows a period or a question mark; within a
    sentence the words that are never names have none. A word that has a mark gets no second one,
    and an amount of money no comma. `inside` are words with a capital inside, as mcdonald to
    McDonald.
    """
    return changed(text, _changes(text, words, labels, inside))


def _changes(
    text: str, words: Sequence[WordSpan], labels: WordLabels, inside: Mapping[str, str]
) -> Iterator[TextEdit]:
    begins = True
    cores = [text[word.core_start : word.core_end] for word in words]
    for word, core, behind, mark, case in zip(
        words, cores, [*cores, ""][1:], labels.marks, labels.cases, strict=True
    ):
        if core in _CURRENCIES and behind in _CENTS and MARKS[mark] == ",":
            mark = MARKS.index("")
        if begins:
            case = max(case, CAPITAL)
        elif core in _NEVER_NAMES:
            case = LOWER
        new = (
            text[word.start : word.core_start]
            + with_case(core, int(case), inside)
            + text[word.core_end : word.end]
            + ("" if _MARKED.search(text[word.core_end : word.end]) else MARKS[mark])
        )
        begins = mark in _ENDS_SENTENCE
        if new != text[word.start : word.end]:
            yield TextEdit(word.start, word.end, new)


def with_case(word: str, case: int, inside: Mapping[str, str]) -> str:
    """Return a word in a case. Its letters stay the same but for that.

    >>> with_case("don't", CAPITAL, {}), with_case("i'll", LOWER, {}), with_case("un's", UPPER, {})
    ("Don't", "I'll", "UN's")
    """
    if word != word.lower() or not _LETTER.search(plain(word)):
        return word
    stem, ending = _STEM.fullmatch(word).groups()  # type: ignore[union-attr]
    if stem == "i":
        case = CAPITAL
    if case == LOWER or any(sign.isdigit() for sign in word):
        return word
    if stem in inside:
        stem = inside[stem]
    elif case == UPPER:
        stem = stem.upper()
    else:
        stem = stem[:1].upper() + stem[1:]
    cased = stem + ending
    return cased if len(cased) == len(word) and cased.lower() == word else word


def _sent(row: Row) -> tuple[str, str]:
    try:
        (text,) = row.texts("text", most=1, longest=LONGEST_TEXT)
        language = row.texts("language", most=1)[0] if "language" in row.inputs else ""
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"inputs 'text' and 'language' take UTF-8: {error}") from error
    return text, language
