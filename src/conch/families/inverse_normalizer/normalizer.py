"""The `inverse_normalizer` component: numbers, dates and amounts in digits, as readers expect.

The grammars are WeTextProcessing's (https://github.com/wenet-e2e/WeTextProcessing), compiled in the
package `wetext`, after Zhang et al. (2021, https://arxiv.org/abs/2104.05055). They take bare words
in lower case, and tell which of them have become what. What surrounds those keeps its characters.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple, TypeVar

import numpy as np
from wetext import AlignmentError, Normalizer

from conch.component import Outputs, Row, RowByRow, TextEdit, changed, text_step_outputs
from conch.families.inverse_normalizer.digit_runs import followed_in_numbers
from conch.language import ONES, TENS, ordinal, spelled
from conch.wire.errors import ConfigError

Item = TypeVar("Item")

_SCALES = frozenset({"hundred", "thousand", "million", "billion", "trillion"})
_NUMBERS = _SCALES.union(
    *(ONES, TENS, map(ordinal, (*ONES[1:], *TENS, "hundred", "thousand", "million"))),
    (f"{ten[:-1]}ies" for ten in TENS),
    ("oh", "half", "quarter", "dozen"),
)
_DIGITS = frozenset({*ONES[:10], "oh", "o", "double", "triple"})
_CENTURIES = frozenset(map(str, range(11, 21)))
"""Centuries of years that are said in two numbers."""
_PART_OF_AN_HOUR = frozenset({"past", "to", "half", "quarter", "after"})
_BEFORE_A_TIME = frozenset(
    {"at", "by", "until", "till", "before", "after", "since", "from", "around"}
)
_HAN_NUMBERS = re.compile("[零〇一二三四五六七八九十百千万億亿两]")
_HAN = re.compile(r"[\u3400-\u9fff]")
_KANA = re.compile(r"[\u3040-\u30ff]")
_TYPES = frozenset(
    {"cardinal", "date", "decimal", "fraction", "measure", "money", "ordinal", "telephone", "time"}
)
"""Types of changes that are made. The grammars know others: titles, e-mail addresses, slang."""
_GROUPED = frozenset({"cardinal", "decimal", "measure", "money", "ordinal"})
"""Types whose digits stand in groups of three."""
_CLAUSE_ENDS = re.compile(r"[.,;:!?…。，、；：！？()\[\]\"“”«»]")  # noqa: RUF001
_ABBREVIATED = frozenset({"km", "km/h", "kg", "g", "mg", "cm", "mm", "mph", "kb", "mb", "gb", "tb"})
"""Units that are abbreviated: no one reads `wait 2 min`, or `a 2 " rope`."""
_CURRENCY = re.compile("[$€£¥₩₹]")
"""Currencies with a symbol: others have abbreviations that few readers know."""
_CHINESE_DATE = re.compile(r"(\d{4})/(\d{2})/(\d{2})")
WORDS_BEFORE, WORDS_BEHIND, MOST_WORDS = 3, 6, 60
"""Words that are read with a number, and the most that are read together: the grammars take longer
than a second for a hundred."""
MOST_READ = 300
"""Words, or Chinese and Japanese characters, that are read of a text: more than anybody says in a
segment. Others wait meanwhile, as rules of a request can make a text of numbers alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InverseNormalizerConfig:
    least_alone: int = 13
    """English numbers below this one stay words, except in money, percentages, metric measures,
    dates and times of day. The grammars leave cardinals up to twelve alone themselves."""

    def __post_init__(self) -> None:
        if self.least_alone < 0:
            raise ConfigError(f"least_alone takes 0 or more; is: {self.least_alone}")


class _Said(NamedTuple):
    """A word as the grammars read it, and where it is in the text."""

    word: str
    start: int
    end: int


class InverseNormalizer(RowByRow):
    """Writes spoken forms of English, Chinese and Japanese in digits, row by row."""

    def __init__(self, config: InverseNormalizerConfig) -> None:
        self._config = config
        self._grammars = {
            language: Normalizer(lang=language, operator="itn") for language in ("en", "zh", "ja")
        }
        # The texts of an n-best list have most of their numbers in common.
        self._mappings = lru_cache(maxsize=4096)(self._find)
        # Each is read at its first use, which must not be a request.
        for language, text in (("en", "ten"), ("zh", "十"), ("ja", "十")):
            self._grammars[language].normalize_with_mapping(text)

    def answer(self, row: Row, /) -> Outputs:
        (text,) = row.texts("text", 1)
        (language,) = row.texts("language", 1) if "language" in row.inputs else ("",)
        return text_step_outputs(*changed(text, self.changes(text, language)))

    def changes(self, text: str, language: str) -> list[TextEdit]:
        """Return the changes of a text, in order; without a language, its script decides."""
        language = language or _guessed(text)
        if language not in self._grammars:
            return []
        if language == "en":
            clauses = _within(_clauses(text), len)
            return [change for clause in clauses for change in self._english(text, clause)]
        return [
            change
            for start, end in _within(_stretches(text), lambda stretch: stretch[1] - stretch[0])
            for change in self._han(text, start, end, language)
        ]

    def _english(self, text: str, clause: Sequence[_Said]) -> Iterator[TextEdit]:
        line = " ".join(said.word for said in clause)
        ends = np.cumsum([len(said.word) + 1 for said in clause])
        for token_type, start, end, new in self._mappings(line, "en"):
            first = int(np.searchsorted(ends, start, side="right"))
            last = int(np.searchsorted(ends, end - 1, side="right"))
            before = clause[first - 1].word if first else ""
            behind = clause[last + 1].word if last + 1 < len(clause) else ""
            said = [item.word for item in clause[first : last + 1]]
            if not _is_sure(token_type, said, before, behind, new):
                continue
            if token_type == "time" and before == "a":  # a quarter to nine
                first -= 1
            words = clause[first : last + 1]
            new = _as_readers_expect(token_type, new)
            if token_type == "measure" and not (
                new.endswith("%") or new.split()[-1] in _ABBREVIATED
            ):
                token_type, new = "cardinal", _with_unit_as_said(new, said)
            if self._stays(token_type, new):
                continue
            words, new = _without_what_is_equal(words, new)
            if words and new:
                # An abbreviation at the end of a sentence has the period once.
                if new.endswith(".") and text[words[-1].end :].startswith("."):
                    new = new[:-1]
                yield TextEdit(words[0].start, words[-1].end, new)

    def _han(self, text: str, start: int, end: int, language: str) -> Iterator[TextEdit]:
        for token_type, low, high, new in self._mappings(text[start:end], language):
            if match := _CHINESE_DATE.fullmatch(new):
                year, month, day = map(int, match.groups())
                new = f"{year}年{month}月{day}日"
            elif token_type == "time" or (token_type == "date" and "/" in new):
                continue  # 05:30:00 for 五点三十分 is not written
            yield TextEdit(start + low, start + high, new)

    def _find(self, line: str, language: str) -> tuple[tuple[str, int, int, str], ...]:
        """Return type, start, end and new text of each change of a line by the grammars."""
        try:
            result = self._grammars[language].normalize_with_mapping(line)
        except (AlignmentError, RuntimeError):  # it has characters that no grammar takes
            return ()
        return tuple(
            (item.token_type, item.input_start, item.input_end, item.output_text)
            for item in result.mappings
            if item.kind == "replace" and item.token_type in _TYPES and item.output_text
        )

    def _stays(self, token_type: str, new: str) -> bool:
        if token_type not in ("cardinal", "ordinal"):
            return False
        digits = "".join(takewhile(str.isdigit, new.replace(",", "")))
        return bool(digits) and int(digits) < self._config.least_alone


def _within(items: Iterable[Item], size: Callable[[Item], int]) -> Iterator[Item]:
    """Yield items while they have no more than MOST_READ together."""
    read = 0
    for item in items:
        read += size(item)
        if read > MOST_READ:
            return
        yield item


def _guessed(text: str) -> str:
    if _KANA.search(text):
        return "ja"
    return "zh" if _HAN.search(text) else "en"


def _clauses(text: str) -> Iterator[list[_Said]]:
    """Yield the runs of words between punctuation that have a number among them."""
    clause: list[_Said] = []
    matches = [*re.finditer(r"\S+", text)]
    tokens = [_edges(token[0]) for token in matches]
    followed = followed_in_numbers(tokens, _NUMBERS)
    for index, (before, core, behind) in enumerate(tokens):
        if before and clause:
            yield from _read(clause)
            clause = []
        start = matches[index].start() + len(before)
        # A recogniser may have written some digits of a number with commas.
        is_cut = core[:1].isdecimal() and not followed.isdisjoint((index - 1, index))
        said = _digits(core, start) if is_cut else _words(core, start)
        if said and said[0].word in _NUMBERS and _are_two_numbers(clause):
            # They may be two numbers too, so the words stay.
            said = [] if _is_of_old(clause, said) else said
            yield from _read(clause)
            clause = []
        clause += said
        _count_a_as_one(clause)
        after = tokens[index + 1][1].lower() if index + 1 < len(tokens) else ""
        goes_on = behind == "," and core.lower() in _SCALES and after.split("-")[0] in _NUMBERS
        if _CLAUSE_ENDS.search(behind) and not goes_on and index not in followed:
            yield from _read(clause)
            clause = []
    yield from _read(clause)


def _count_a_as_one(clause: list[_Said]) -> None:
    """Read `a hundred twenty` and `a hundred and twenty` as 120, once its last word is there."""
    words = [said.word for said in clause[-4:]]
    for end in (words[-3:-1], words[-4:-1]):
        begins = len(end) > 1 and end[0] == "a" and end[1] in _SCALES and end[2:] in ([], ["and"])
        if begins and words[-1] in _NUMBERS:
            at = len(clause) - 1 - len(end)
            clause[at] = clause[at]._replace(word="one")


def _are_two_numbers(before: Sequence[_Said]) -> bool:
    """Return whether a number behind these words is one of its own: `fifty and ninety people`.

    The grammars know no difference between this `and` and that of `one hundred and ninety`.
    """
    words = [said.word for said in before[-2:]]
    return len(words) == 2 and words[1] == "and" and words[0] in _NUMBERS - _SCALES


def _is_of_old(before: Sequence[_Said], said: Sequence[_Said]) -> bool:
    """Return whether tens may be those of an old number: `eight and thirty` is 38."""
    return len(said) == 1 and said[0].word in TENS and before[-2].word in ONES[1:10]


def _read(clause: list[_Said]) -> Iterator[list[_Said]]:
    """Yield the numbers of a clause, each with the words around it."""
    read: list[_Said] = []
    until = 0
    for index, said in enumerate(clause):
        if said.word in _NUMBERS:
            if index - WORDS_BEFORE > until or len(read) > MOST_WORDS:
                yield from [read] if read else []
                until = max(until, index - WORDS_BEFORE)
                read = []
            end = min(len(clause), index + 1 + WORDS_BEHIND)
            read += clause[until:end]
            until = end
    yield from [read] if read else []


def _edges(token: str) -> tuple[str, str, str]:
    """Return the punctuation before a token, its core, and the punctuation behind it."""
    chars = [index for index, char in enumerate(token) if unicodedata.category(char)[0] in "LMN"]
    if not chars:
        return "", "", token
    first, last = chars[0], chars[-1] + 1
    return token[:first], token[first:last], token[last:]


def _words(core: str, start: int) -> list[_Said]:
    """Return a token as words: `twenty-one` as two, `well-known` as one."""
    if not core:
        return []
    parts = core.split("-")
    if len(parts) == 1 or not all(part.lower() in _NUMBERS for part in parts):
        return [_Said(core.lower(), start, start + len(core))]
    said = []
    for part in parts:
        said.append(_Said(part.lower(), start, start + len(part)))
        start += len(part) + 1
    return said


def _digits(core: str, start: int) -> list[_Said]:
    words = ["point" if char == "." else ONES[int(char)] for char in core]
    return [_Said(word, at, at + 1) for at, word in enumerate(words, start)]


def _with_unit_as_said(new: str, said: Sequence[str]) -> str:
    """Return a measure with the words of its unit: those behind the last number."""
    behind = next((at for at in range(len(said), 0, -1) if said[at - 1] in _NUMBERS), 0)
    return " ".join([new.split()[0], *said[behind:]])


def _is_sure(token_type: str, said: Sequence[str], before: str, behind: str, new: str) -> bool:
    """Return whether the grammars' reading of words can hardly be wrong."""
    if before in _SCALES or said[0] in _SCALES:  # `a hundred twenty`, whose beginning stays
        return False
    if token_type == "money":
        return bool(_CURRENCY.match(new))
    if token_type == "telephone":  # and neither `a one two punch` nor counting to ten
        return all(word in _DIGITS for word in said)
    if token_type == "date":
        if re.fullmatch(r"\d{4}", new):  # but `fifty sixty people`
            return new[:2] in _CENTURIES or not _SCALES.isdisjoint(said)
        return not (said[0] == "may" and said[1:] and said[1] in _DIGITS)
    if token_type != "time":
        return True
    if "o'clock" in (said[-1], behind):
        return False
    match = re.match(r"(\d\d):(\d\d)", new)
    if not match or _PART_OF_AN_HOUR & set(said):
        return bool(match)
    hour, minute = (str(int(digits)) for digits in match.groups())
    minutes = [] if minute == "0" else [*(["oh"] if len(minute) == 1 else []), *spelled(minute)]
    # The grammars take `two fifty` for ten past two.
    if list(takewhile(lambda word: word in _NUMBERS, said)) != [*spelled(hour), *minutes]:
        return False
    return before in _BEFORE_A_TIME or said[-1] not in _NUMBERS


def _as_readers_expect(token_type: str, new: str) -> str:
    """Return what the grammars write, without the zero of 05:30 and with the commas of 10,500."""
    if token_type == "time":
        return re.sub(r"^0(?=\d:)", "", new)
    if token_type in _GROUPED:
        # Four digits may be a year, unless they are money.
        least = 4 if token_type == "money" else 5
        long = rf"(?<![\d.,])[1-9]\d{{{least - 1},}}(?!,)"
        new = re.sub(long, lambda digits: f"{int(digits[0]):,}", new)
    return re.sub(r"(?<=\d) %", "%", new)


def _without_what_is_equal(words: Sequence[_Said], new: str) -> tuple[Sequence[_Said], str]:
    """Return a change without the words at its edges that stay, as they may have capitals."""
    written = new.split()
    while words and written and words[0].word == written[0].lower():
        words, written = words[1:], written[1:]
    while words and written and words[-1].word == written[-1].lower():
        words, written = words[:-1], written[:-1]
    return words, " ".join(written)


def _stretches(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of the stretches between punctuation and spaces with a Han number."""
    at = 0
    for match in re.finditer(r"[\s\W]+|$", text):
        if _HAN_NUMBERS.search(text[at : match.start()]):
            yield at, match.start()
        at = match.end()
