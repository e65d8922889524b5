"""The `text_frontend` component: hibari's reading of English, used as a library.

Words lose what has no reading before, and get some readings that hibari lacks.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import pairwise

import numpy as np

from conch.component import Outputs, Row, RowByRow, bytes_array
from conch.component.parameters import be_nice
from conch.families.hibari import PACKAGE
from conch.packaged import packaged

_KEPT = frozenset("\u2019\u2018“”—\u2013…€£¥¢°\u00d7÷±½¼¾⅓⅔₹₩µ")
"""Characters beyond ASCII and Latin letters that hibari reads."""
_FRACTIONS = {"½": "a half", "¼": "a quarter", "¾": "three quarters", "⅓": "a third"}
_ADDRESS = re.compile(
    r"([(<\[\"']*)(?:https?://)?((?:www\.)?[\w-]+(?:\.[\w-]+)*\.[a-z]{2,6}|localhost|"
    r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+)(:\d+)?(/\S*?)?([>.,;:!?)\]\"']*)",
    re.IGNORECASE,
)
"""A host or an e-mail address, a port, a path, and the punctuation around it."""
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
    ":": " colon ",
    "?": " question mark ",
    "=": " equals ",
    "&": " and ",
    "#": " hash ",
}
_NUMBER = re.compile(r"[-+]?[\d.,]*\d")
_READ: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"`"), ""),
    (re.compile(r"\b([A-GFJ])#(?!\w)"), r"\1 sharp"),
    # What has no name as a number: its digits are read.
    (re.compile(r"\d{16,}"), lambda match: " ".join(match[0])),
    (
        re.compile(rf"(\d+)([{''.join(_FRACTIONS)}])"),
        lambda match: f"{match[1]} and {_FRACTIONS[match[2]]}",
    ),
    (re.compile(r"\b\d+(?:\.\d+){3}\b"), lambda match: match[0].replace(".", " dot ")),
    (re.compile(r"\b\d+(?:\.\d+){2,}\b"), lambda match: match[0].replace(".", " point ")),
    (re.compile(r"\b(\d+)\.0\b"), r"\1 point zero"),
    (re.compile(r"\b(\d+)x(\d+)\b"), r"\1 by \2"),
    (re.compile(r"\bUS\$"), "$"),
    (re.compile(r"^-(?=[$€£¥]\d)"), "minus "),
    (re.compile(r"(?<![$€£¥\d.,])(\d[\d.,]*)([€£¥])"), r"\2\1"),
    (re.compile(r"(\d)'(\d+)(?:\"|''|”)"), r"\1 foot \2"),
    (re.compile(r"\b(\d{1,2})am\b"), r"\1 A.M."),
    (re.compile(r"\b[Dd]ept\."), "department"),
)
"""Patterns in a word, and what is read."""
_AFTER_NUMBER = {
    "am": "A.M.",
    "a.m.": "A.M.",
    "AD": "A D",
    "BC": "B C",
    "1/2": "and a half",
    "1/4": "and a quarter",
    "3/4": "and three quarters",
    "m/s": "meters per second",
    "in.": "inches",
}
_UNITS = {
    "m": "meter",
    "g": "gram",
    "l": "liter",
    "L": "liter",
    "s": "second",
    "W": "watt",
    "V": "volt",
    **{f"{short}2": f"square {long}" for short, long in (("m", "meter"), ("km", "kilometer"))},
    "m3": "cubic meter",
}
"""Units that hibari reads as letters; `m²` is `m2` here."""
_BEFORE_NUMBER = {"p.": "page", "AD": "A D"}
_DAYS = re.compile(r"(Mon|Tues?|Wed|Thu|Thurs?|Fri|Sat|Sun),")
_FULL_DAYS = {
    name[:2]: name
    for name in ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
}
_MONTH = re.compile(r"(Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec)\b")
SHOUTED = 3
"""Words of a text in capitals from which on it is a sentence."""
LONGEST_BYTES = 10_000
VOCABULARY = "vocab.json"
SHA256 = {VOCABULARY: "70abefbe8a1c8865e43e0a43bbdc25b91a33e4aa053479d443ccf23e20a59e5d"}
PAD = 0
"""Token around a sentence."""
PAUSES = frozenset(';:,.!?—…"()“” ')
"""Sounds that are no part of a word."""


@dataclass(frozen=True, slots=True)
class ReadableWord:
    text: str
    start: int
    end: int


def words_of(text: str) -> list[ReadableWord]:
    """Return the words of a text that have a reading; spaces and control characters part them.

    A sentence in capitals is not one of abbreviations, whose letters would be read.
    """
    if text.isupper() and len(text.split()) >= SHOUTED:
        text = _lower(text)
    words = [
        ReadableWord("".join(map(_character, unicodedata.normalize("NFC", item[0]))), *item.span())
        for item in re.finditer(r"[^\s\x00-\x1f\x7f-\x9f]+", text)
    ]
    around = ["", *(word.text for word in words), ""]
    read = map(readable, around[1:-1], around, around[2:])
    return [replace(word, text=said) for word, said in zip(words, read, strict=True) if said]


def readable(word: str, before: str = "", after: str = "") -> str:
    """Return a word as hibari should read it, given its neighbours."""
    match = _ADDRESS.fullmatch(word)
    if match and (
        "@" in match[2]
        or match[2].rpartition(".")[2].lower() in _TOP_LEVEL
        or (match[2] == "localhost" and match[3])
    ):
        host = re.sub(r"^www\.", "w w w.", match[2], flags=re.IGNORECASE)
        address = f"{host}{match[3] or ''}{match[4] or ''}".rstrip("/")
        said = " ".join("".join(_SAID.get(item, item) for item in address).split())
        return f"{match[1].replace('<', '')}{said}{match[5].replace('>', '')}"
    if _NUMBER.fullmatch(before):
        word = _after_number(word, before)
    elif _NUMBER.match(after):
        word = _BEFORE_NUMBER.get(word, word)
    if (day := _DAYS.fullmatch(word)) and _MONTH.match(after):
        word = f"{_FULL_DAYS[day[1][:2]]},"
    for pattern, reading in _READ:
        word = pattern.sub(reading, word)
    return " ".join(word.split())


def _after_number(word: str, number: str) -> str:
    if word in _AFTER_NUMBER:
        return _AFTER_NUMBER[word]
    core = word.rstrip(".,;:!?)")
    if core in _UNITS:
        return f"{_UNITS[core]}{'' if number == '1' else 's'}{word[len(core) :]}"
    return f"{_AFTER_NUMBER[core]}{word[len(core) :]}" if core in _AFTER_NUMBER else word


def _lower(text: str) -> str:
    return "".join(small if len(small := letter.lower()) == 1 else letter for letter in text)


def _character(character: str) -> str:
    """Return what is read of a character: itself, a plainer one, or nothing."""
    if character.isascii() or character in _KEPT:
        return character
    digit = unicodedata.digit(character, None)
    if digit is not None:
        return str(digit)
    plain = unicodedata.normalize("NFKC", character)
    category = unicodedata.category(character)
    if category.startswith("L"):
        return plain if all(map(_is_latin, plain)) else ""
    if category.startswith("Z"):
        return " "
    return plain if plain.isascii() and not category.startswith("S") else ""


def _is_latin(character: str) -> bool:
    return character.isascii() or unicodedata.name(character, "").startswith("LATIN ")


def symbols() -> dict[int, str]:
    """Return the sound of each token but PAD."""
    path = packaged(PACKAGE, "assets", SHA256) / VOCABULARY
    return {token: sound for sound, token in json.loads(path.read_text("utf-8")).items()}


@dataclass(frozen=True, slots=True)
class FrontEndConfig:
    nice: int = 5


@dataclass(frozen=True, slots=True)
class PhonemeSpan:
    """Words of a text that were read together, and their sounds."""

    first: int
    last: int
    phonemes: str


class FrontEnd(RowByRow):
    def __init__(self, config: FrontEndConfig) -> None:
        be_nice(config.nice)
        self._tokens = {sound: token for token, sound in symbols().items()}
        # Where it is needed: the launcher asks for the class alone.
        from hibari.g2p import G2P
        from hibari.g2p.normalize import normalize

        self._normalize, self._g2p = normalize, G2P()
        self._g2p("Zyzzyva.")  # opens the network

    def answer(self, row: Row, /) -> Outputs:
        (text,) = row.texts("text", 1, LONGEST_BYTES)
        words = words_of(text)
        tokens, spans, phonemes = [PAD], [], ""
        for spoken in self._spoken(words, normalizes=row.parameters.get("normalize", True)):
            known = [sound for sound in spoken.phonemes if sound in self._tokens]
            if phonemes and known:
                phonemes += " "
                tokens.append(self._tokens[" "])
            first = len(tokens)
            phonemes += "".join(known)
            tokens += (self._tokens[sound] for sound in known)
            voiced = [index for index, sound in enumerate(known, first) if sound not in PAUSES]
            if voiced:
                ends = words[spoken.first].start, words[spoken.last].end
                spans.append((*ends, voiced[0], voiced[-1] + 1))
        tokens.append(PAD)
        if not spans:
            tokens, phonemes = [], ""
        return {
            "phonemes": bytes_array([phonemes]),
            "tokens": np.array(tokens, np.int32),
            "spans": np.array(spans, np.int32).reshape(-1, 4),
        }

    def _spoken(self, words: Sequence[ReadableWord], *, normalizes: bool) -> Iterator[PhonemeSpan]:
        """Yield the sounds of words; those that are read as one, such as 7:30 pm, together."""
        parts = [(number, part) for number, word in enumerate(words) for part in word.text.split()]
        text = " ".join(part for _, part in parts)
        read = self._sounds(self._normalize(text) if normalizes else text)
        before: PhonemeSpan | None = None
        for first, last, begin, end in aligned([part for _, part in parts], [w for w, _ in read]):
            sounds = " ".join(phonemes for _, phonemes in read[begin:end] if phonemes)
            spoken = PhonemeSpan(parts[first][0], parts[last][0], sounds)
            if before and spoken.first <= before.last:
                spoken = PhonemeSpan(
                    before.first, spoken.last, f"{before.phonemes} {sounds}".strip()
                )
            elif before:
                yield before
            before = spoken
        if before:
            yield before

    def _sounds(self, text: str) -> list[tuple[str, str]]:
        pairs: list[tuple[str, str]] = []
        is_begun = False
        for token in self._g2p.phonemize_tokens(self._g2p.tokenize(text)):
            written, sounds = token.text, token.phonemes or ""
            if is_begun:
                before = pairs.pop()
                written, sounds = before[0] + written, before[1] + sounds
            pairs.append((written, sounds))
            is_begun = not token.whitespace
        return pairs


def aligned(written: Sequence[str], read: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield which words are read by which: first and last of one, begin and end of the other.

    All of `read` are in the answer, in order; words that nothing reads are not.
    """
    matcher = SequenceMatcher(None, written, read, autojunk=False)
    cuts = [(0, 0)]
    for block in matcher.get_matching_blocks():
        cuts += ((block.a + i, block.b + i) for i in range(block.size + 1))
    for (begin, read_begin), (end, read_end) in pairwise(cuts):
        if read_end > read_begin:
            first = min(begin, len(written) - 1)
            yield first, max(first, end - 1), read_begin, read_end
