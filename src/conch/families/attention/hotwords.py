"""Hotwords in the text of an attention decoder: what sounds alike is written as a hotword.

Such a decoder writes a name that it does not know by its sound: Prynne becomes Prin. Words whose
letters are close to a hotword are replaced by it, and the decoder scores both texts given the
audio. The hotword stays if it loses less than its weight allows. So nothing is written where
nothing alike was heard, and audio without such words costs no call.
"""

import asyncio
import re
import unicodedata
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jellyfish import metaphone
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from conch.component import FloatArray
from conch.wire.hotwords import Hotword, hotwords_of
from conch.wire.options import RecognitionOptions
from conch.wire.replacements import findable
from conch.wire.result import Hypothesis

WHOLE_WEIGHT_LETTERS = 10
"""Letters of a phrase that gets its full weight. Shorter ones get less, because most false matches
are short."""
LEAST_SIMILARITY = 0.55
"""Similarity from which on a hotword is tried: the mean of letters and sounds, each 1 less the edit
distance over the length of the longer one. With the sounds, the closest eight hold 58 of 79 names
on dev; by letters alone, 45."""
LEAST_LETTERS = 3
MOST_TRIED = 8
"""Hotwords that are tried in a segment, the closest ones."""
MORE_WORDS = 2
"""Words beyond its own as which a name may be recognised: Timokhin as `to mock him`."""
MOST_WORDS = 6
"""Words of a hotword with near misses: a longer one only adds its bonus."""
_MOST_LOOKED_AT = 1000
"""Closest pairs of a span and a hotword, most of which are the hotword itself."""
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
_POSSESSIVE = re.compile(r"['\u2019]s$", re.IGNORECASE)
_BEHIND_NAME = re.compile(r"['\u2019]s\b|(?<=s)['\u2019](?!\w)", re.IGNORECASE)
"""Ending of a possessive: that of `Syme's`, or the apostrophe of `Symes'`."""
_SIBILANT = re.compile(r"[sz]+e?$|ce$|x$")
"""Sound of a possessive: Diness for `Dinah's`, Servidex for `Servadac's`."""
_PAUSE = re.compile(r"[^\s\-]")


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A stretch of a text that a hotword may stand for."""

    start: int
    end: int
    written: str
    """The hotword, as it is written there."""
    tried: str
    """The hotword, as the decoder would write it: capitals alone are improbable."""
    bonus: float
    """Nats that the hotword adds."""


async def with_hotwords(
    nbest: Sequence[Hypothesis],
    options: RecognitionOptions,
    scores_of: Callable[[list[str]], Awaitable[list[float]]],
) -> Sequence[Hypothesis]:
    """Return the hypotheses with the hotwords of the request, best first.

    A hypothesis that has a hotword gains its bonus. If hotwords fit better than words of the best
    one, a new best one is in front. `scores_of` returns the log probability of each text, given the
    audio of the segment.
    """
    hotwords = hotwords_of(options.hotwords, options.hotword_weight)
    if not hotwords:
        return nbest

    def compare() -> tuple[list[Hypothesis], list[NearMiss]]:
        gained = [replace(item, score=item.score + bonus_of(item.text, hotwords)) for item in nbest]
        gained.sort(key=lambda item: -item.score)
        return gained, near_misses(gained[0].text, hotwords)

    # In a thread: a thousand names and sixty words take 10 ms.
    scored, misses = await asyncio.to_thread(compare)
    best = scored[0]
    if not misses:
        return scored
    tried = [replace(miss, written=miss.tried) for miss in misses]
    texts = [best.text, *(put_in(best.text, [miss]) for miss in tried)]
    before, *scores = await scores_of(texts)
    gains = [score - before for score in scores]
    chosen = fitting(misses, gains)
    if not chosen:
        return scored
    gain = sum(gains[index] for index in chosen)
    added = sum(misses[index].bonus for index in chosen)
    named = replace(
        best,
        text=put_in(best.text, [misses[index] for index in chosen]),
        score=best.score + gain + added,
        am_score=best.am_score + gain,
    )
    return [named, *(item for item in scored if item.text != named.text)]


def bonus(hotword: Hotword) -> float:
    """Return the nats that a hotword adds to the score of a text."""
    return hotword.weight * min(1.0, len(_letters(hotword.phrase)) / WHOLE_WEIGHT_LETTERS)


def bonus_of(text: str, hotwords: Sequence[Hotword]) -> float:
    """Return the nats that the hotwords of a text add to its score."""
    words = _spaced(text)
    phrases = _index(tuple(hotwords)).spaced
    return sum(
        bonus(item) * words.count(phrase)
        for phrase, item in zip(phrases, hotwords, strict=True)
        if phrase in words
    )


def near_misses(text: str, hotwords: Sequence[Hotword]) -> list[NearMiss]:
    """Return where hotwords may have been said, the closest first; none in unspaced text."""
    index = _index(tuple(hotwords))
    pairs: list[tuple[float, _TextSpan, int]] = []
    for num_words, columns in index.by_words.items():
        if spans := _spans(text, num_words + MORE_WORDS):
            pairs += _alike(spans, index, columns)
    pairs.sort(key=lambda pair: -pair[0])
    misses = []
    for _, (start, end, letters, ending), column in pairs[:_MOST_LOOKED_AT]:
        phrase, spaced = hotwords[column].phrase, index.spaced[column]
        if ending:
            # What is heard as the name itself and an s may be its plural.
            is_there = letters == index.letters[column] or spaced in _spaced(text[start:end])
            if is_there or _POSSESSIVE.search(phrase):
                continue
        phrase += ending.upper() if phrase.isupper() else ending
        if _POSSESSIVE.search(phrase) and (behind := _BEHIND_NAME.match(text, end)):
            end = behind.end()
        replaced = text[start:end]
        around = _spaced(replaced)
        written = _cased(phrase, replaced)
        # More words around the hotword itself would only be lost.
        if written != replaced and (spaced not in around or spaced == around):
            tried = _cased(phrase.lower(), replaced) if phrase.isupper() else written
            # The decoder writes straight apostrophes.
            tried = tried.replace("\u2019", "'")
            worth = bonus(Hotword(phrase, hotwords[column].weight))
            misses.append(NearMiss(start, end, written, tried, worth))
        if len(misses) == MOST_TRIED:
            break
    return misses


def fitting(misses: Sequence[NearMiss], gains: Sequence[float]) -> list[int]:
    """Return which near misses to write, best first, without overlaps; each gains nats."""
    chosen: list[int] = []
    worth = [miss.bonus + gain for miss, gain in zip(misses, gains, strict=True)]
    for index in sorted(range(len(misses)), key=lambda index: -worth[index]):
        miss = misses[index]
        others = [misses[other] for other in chosen]
        is_free = all(miss.end <= other.start or other.end <= miss.start for other in others)
        if worth[index] > 0 and is_free:
            chosen.append(index)
    return chosen


def put_in(text: str, misses: Sequence[NearMiss]) -> str:
    """Return a text with hotwords in place of near misses, which do not overlap."""
    for miss in sorted(misses, key=lambda miss: -miss.start):
        text = text[: miss.start] + miss.written + text[miss.end :]
    return text


class _TextSpan(NamedTuple):
    start: int
    end: int
    letters: str
    """Letters, without the ending of a possessive."""
    ending: str = ""
    """Ending of a possessive, if it is not written but the last letters may hold it."""


class _Index(NamedTuple):
    letters: list[str]
    """Letters of each hotword, without spaces."""
    sounds: list[str]
    spaced: list[str]
    """Words of each hotword in letters, with spaces around each."""
    by_words: dict[int, list[int]]
    """Indices of the hotwords by their number of words, up to MOST_WORDS."""


@lru_cache(maxsize=16)
def _index(hotwords: tuple[Hotword, ...]) -> _Index:
    # As spans of a text are compared: without the ending of a possessive.
    letters = [_letters(_POSSESSIVE.sub("", item.phrase)) for item in hotwords]
    by_words: dict[int, list[int]] = {}
    for position, item in enumerate(hotwords):
        if (num_words := len(item.phrase.split())) <= MOST_WORDS:
            by_words.setdefault(num_words, []).append(position)
    return _Index(
        letters, [*map(_sounds, letters)], [_spaced(item.phrase) for item in hotwords], by_words
    )


def _alike(
    spans: Sequence[_TextSpan], index: _Index, columns: Sequence[int]
) -> Iterator[tuple[float, _TextSpan, int]]:
    """Yield similarity, span and hotword, the closest pairs first, for `columns` of the index."""
    letters = [span.letters for span in spans]
    similar = (
        _similarity(letters, [index.letters[column] for column in columns])
        + _similarity([*map(_sounds, letters)], [index.sounds[column] for column in columns])
    ) / 2
    rows, matches = np.nonzero(similar >= LEAST_SIMILARITY)
    shares = similar[rows, matches]
    for at in np.argsort(-shares, kind="stable")[:_MOST_LOOKED_AT]:
        yield float(shares[at]), spans[rows[at]], columns[matches[at]]


def _spans(text: str, most_words: int) -> list[_TextSpan]:
    """Return the runs of words without punctuation between them."""
    words = list(_WORD.finditer(findable(text)))
    is_joined = [not _PAUSE.search(text[one.end() : two.start()]) for one, two in pairwise(words)]
    spans = []
    for first, word in enumerate(words):
        for last in range(first, min(first + most_words, len(words))):
            if last > first and not is_joined[last - 1]:
                break
            end = words[last].end()
            if possessive := _POSSESSIVE.search(text, word.start(), end):
                end = possessive.start()
            letters = _letters(text[word.start() : end])
            bare = _SIBILANT.sub(lambda last: "k" if last[0] == "x" else "", letters)
            endings = {letters: ""} if possessive else {bare: "'s", letters: ""}
            spans += [
                _TextSpan(word.start(), end, spoken, ending)
                for spoken, ending in endings.items()
                if len(spoken) >= LEAST_LETTERS
            ]
    return spans


def _cased(phrase: str, replaced: str) -> str:
    """Return a phrase as the user wrote it; one without capitals has those of what it replaces."""
    if phrase != phrase.lower() or not replaced[:1].isupper():
        return phrase
    if all(word[:1].isupper() for word in replaced.split()):
        return " ".join(word[:1].upper() + word[1:] for word in phrase.split(" "))
    return phrase[:1].upper() + phrase[1:]


def _similarity(ones: Sequence[str], others: Sequence[str]) -> FloatArray:
    """Return the similarity `[ones, others]` of texts, from 0 to 1."""
    # float32 is what rapidfuzz fills fastest.
    return process.cdist(ones, others, scorer=Levenshtein.normalized_similarity, dtype=np.float32)


@lru_cache(maxsize=50_000)
def _sounds(letters: str) -> str:
    """Return the English consonants of letters (Metaphone, Philips 1990), else the letters."""
    plain = unicodedata.normalize("NFKD", letters).encode("ascii", "ignore").decode()
    return metaphone(plain) or letters


def _spaced(text: str) -> str:
    """Return the letters of each word with a space on both sides, so that no two share one."""
    return f" {'  '.join(map(_letters, text.split()))} "


def _letters(text: str) -> str:
    text = unicodedata.normalize("NFC", text.casefold())
    return "".join(char for char in text if char.isalnum() or unicodedata.category(char)[0] == "M")
