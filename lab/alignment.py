"""Compare a transcript with its reference: word errors, and runs of deleted words with times.

A run of deleted words is speech that left no trace in the text: the kind of error that a word
error rate hides, because a whole sentence lost costs as much as as many slips of the pen.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from conch.scoring.error_rates import ENGLISH_WORDS, Scoring, WordErrors
from conch.wire.joining import joined_text
from lab.parts import Part

MIN_RUN = 3
"""Least number of deleted words in a row that make a reported run."""


@dataclass(frozen=True, slots=True)
class TimedWord:
    """A normalised word of a reference, or a character where those count."""

    text: str
    start_s: float
    end_s: float

    def after(self, offset_s: float) -> "TimedWord":
        """Return the word on a clock that is `offset_s` seconds ahead."""
        return replace(self, start_s=self.start_s + offset_s, end_s=self.end_s + offset_s)


@dataclass(frozen=True, slots=True)
class DeletedRun:
    """Reference words in a row that the transcript lacks."""

    first_word: int
    """Index in the reference of the recording, from 0."""
    words: tuple[TimedWord, ...]

    @property
    def text(self) -> str:
        return joined_text(word.text for word in self.words)

    @property
    def start_s(self) -> float:
        return self.words[0].start_s

    @property
    def end_s(self) -> float:
        return self.words[-1].end_s


@dataclass(frozen=True, slots=True)
class Alignment:
    errors: WordErrors
    deleted_runs: tuple[DeletedRun, ...] = ()
    """Runs of at least `MIN_RUN` words, in order of time."""


def reference_words(parts: Iterable[Part], scoring: Scoring = ENGLISH_WORDS) -> list[TimedWord]:
    """Return the normalised words of a recording with their times, or what else `scoring` counts.

    All words of a part take the same time. The normaliser changes the number of words, so it runs
    on each part alone. A word is then never outside its part.
    """
    return [word for part in parts for word in _words(part, scoring)]


def align(
    words: Sequence[TimedWord], hypothesis: str, scoring: Scoring = ENGLISH_WORDS
) -> Alignment:
    import jiwer

    reference = " ".join(word.text for word in words)
    output = jiwer.process_words(reference, " ".join(scoring.tokens(hypothesis)))
    counts = (output.substitutions, output.deletions, output.insertions)
    return Alignment(
        errors=WordErrors(len(words), *counts, scoring),
        deleted_runs=tuple(_deleted_runs(words, output.alignments[0])),
    )


def _words(part: Part, scoring: Scoring) -> list[TimedWord]:
    texts = scoring.tokens(part.text)
    word_s = (part.end_s - part.start_s) / max(1, len(texts))
    return [
        TimedWord(text, part.start_s + index * word_s, part.start_s + (index + 1) * word_s)
        for index, text in enumerate(texts)
    ]


def _deleted_runs(words: Sequence[TimedWord], chunks: Iterable[Any]) -> Iterable[DeletedRun]:
    """Yield the runs among jiwer's chunks, in which neighbours of one kind are together."""
    for chunk in chunks:
        first, end = chunk.ref_start_idx, chunk.ref_end_idx
        if chunk.type == "delete" and end - first >= MIN_RUN:
            yield DeletedRun(first, tuple(words[first:end]))
