"""Compare a transcript with its reference: word errors, and runs of deleted words with times.

A run of deleted words is speech that left no trace in the text: the kind of error that a word
error rate hides, because a whole sentence lost costs as much as as many slips of the pen.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from conch.scoring.error_rates import (
    ENGLISH_WORDS,
    Scoring,
    WordErrors,
    accuracy,
    percent,
    word_errors,
)
from conch.scoring.manifest import ManifestEntry
from conch.wire.joining import joined_text

MIN_RUN = 3
"""Least number of deleted words in a row that make a reported run."""


@dataclass(frozen=True, slots=True)
class Part:
    path: Path
    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class JoinedUtterance(ManifestEntry):
    """A recording made of joined utterances; `text` is theirs."""

    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class TimedWord:
    """A normalised word of a reference, or a character where those count."""

    text: str
    start_s: float
    end_s: float

    def after(self, offset_s: float) -> "TimedWord":
        """Return the word on a clock that is `offset_s` seconds ahead."""
        return replace(self, start_s=self.start_s + offset_s, end_s=self.end_s + offset_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedWords:
    """A run of words in a row that a text lacks."""

    path: str
    start: float
    """Seconds of the recording."""
    end: float
    words: str
    first_word: int
    """Index in the recording's reference, from 0."""
    end_word: int
    """One past the last."""


def parts_of(utterance: ManifestEntry, duration_s: float) -> tuple[Part, ...]:
    """Return the parts of a joined recording; any other one is a single part."""
    if isinstance(utterance, JoinedUtterance):
        return utterance.parts
    return (Part(utterance.path, utterance.text, 0.0, duration_s),)


def reference_words(parts: Iterable[Part], scoring: Scoring = ENGLISH_WORDS) -> list[TimedWord]:
    """Return the normalised words of a recording with their times, or what else `scoring` counts.

    All words of a part take the same time. The normaliser changes the number of words, so it runs
    on each part alone. A word is then never outside its part.
    """
    return [word for part in parts for word in _words(part, scoring)]


def align(
    path: Path, words: Sequence[TimedWord], hypothesis: str, scoring: Scoring = ENGLISH_WORDS
) -> tuple[WordErrors, list[DeletedWords]]:
    """Return the errors of a recording's text, and its runs of `MIN_RUN` deleted words or more."""
    if not words:
        return WordErrors(scoring=scoring), []
    import jiwer

    reference = " ".join(word.text for word in words)
    output = jiwer.process_words(reference, " ".join(scoring.tokens(hypothesis)))
    counts = (output.substitutions, output.deletions, output.insertions)
    # Neighbours of one kind are in one chunk.
    deleted = [
        _deleted(path, words, chunk.ref_start_idx, chunk.ref_end_idx)
        for chunk in output.alignments[0]
        if chunk.type == "delete" and chunk.ref_end_idx - chunk.ref_start_idx >= MIN_RUN
    ]
    return WordErrors(len(words), *counts, scoring), deleted


def equal_words(reference: Sequence[str], hypothesis: Sequence[str]) -> list[tuple[int, int]]:
    """Return the indices of words that are equal in an alignment of two texts."""
    if not (reference and hypothesis):
        return []
    import jiwer

    output = jiwer.process_words(" ".join(reference), " ".join(hypothesis))
    return [
        (chunk.ref_start_idx + offset, chunk.hyp_start_idx + offset)
        for chunk in output.alignments[0]
        if chunk.type == "equal"
        for offset in range(chunk.ref_end_idx - chunk.ref_start_idx)
    ]


def rates_by_source(utterances: Sequence[ManifestEntry], texts: Sequence[str]) -> dict[str, str]:
    """Return the word error rates of texts in percent, by source, and those of `all`."""
    pairs = zip(utterances, texts, strict=True)
    found = accuracy([(item.source, word_errors(item.text, text)) for item, text in pairs])
    rates = {**dict(sorted(found.wer_by_source.items())), "all": found.wer}
    return {source: percent(rate) for source, rate in rates.items()}


def _words(part: Part, scoring: Scoring) -> list[TimedWord]:
    texts = scoring.tokens(part.text)
    word_s = (part.end_s - part.start_s) / max(1, len(texts))
    return [
        TimedWord(text, part.start_s + index * word_s, part.start_s + (index + 1) * word_s)
        for index, text in enumerate(texts)
    ]


def _deleted(path: Path, words: Sequence[TimedWord], first: int, end: int) -> DeletedWords:
    return DeletedWords(
        path=str(path),
        start=round(words[first].start_s, 2),
        end=round(words[end - 1].end_s, 2),
        words=joined_text(word.text for word in words[first:end]),
        first_word=first,
        end_word=end,
    )
