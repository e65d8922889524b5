"""Batches of windows of texts."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conch.families.punctuation.model import (
    CAPITAL,
    MARKS,
    UNKNOWN,
    UPPER,
    HashedVocabulary,
    plain,
)
from lab.training.punctuation.written import PrintedWord, words_of_line

LENGTHS = (12, 24, 48, 96)
"""Longest windows of a batch, in words."""
AT_SENTENCES = 0.8
"""Share of windows that begin with a sentence, and of those that end with one."""
_SENTENCE_ENDS = (MARKS.index("."), MARKS.index("?"))


class Corpus(NamedTuple):
    """Texts, one word after the other."""

    features: NDArray[np.int32]
    """`[N, FEATURES]`."""
    marks: NDArray[np.int64]
    """`[N]`, of MARKS."""
    cases: NDArray[np.int64]
    """`[N]`."""
    starts: NDArray[np.int64]
    """Where sentences begin."""


def read_lines(paths: Sequence[Path]) -> list[list[PrintedWord]]:
    return [words_of_line(line) for path in paths for line in path.read_text().splitlines()]


def vocabulary_of(
    lines: Sequence[Sequence[PrintedWord]], size: int, least: int = 3
) -> HashedVocabulary:
    """Return the most frequent words that stand at least `least` times in the texts."""
    counts = Counter(plain(item.word) for line in lines for item in line)
    return HashedVocabulary([word for word, count in counts.most_common(size) if count >= least])


def cased_forms(lines: Sequence[Sequence[PrintedWord]]) -> tuple[dict[str, str], set[str]]:
    """Return what the case of a word's first letter does not show.

    Forms with a capital inside that are the usual ones, as mcdonald to McDonald; and words that
    usually are capitals alone. Shouted words are neither.
    """
    forms: dict[str, Counter[str]] = {}
    for line in lines:
        for item in line:
            forms.setdefault(item.word.lower(), Counter())[item.word] += 1
    inside, capitals = {}, set()
    for word, counts in forms.items():
        form, count = counts.most_common(1)[0]
        if 2 * count <= counts.total() or form[1:].islower() or len(word) < 2:
            continue
        if form.isupper():
            capitals.add(word)
        elif count >= 3 and "'" not in word[:-2] and form[1:] != form[1:].lower():
            inside[word] = form
    return inside, capitals


def corpus_of(
    lines: Sequence[Sequence[PrintedWord]], vocabulary: HashedVocabulary, capitals: set[str]
) -> Corpus:
    """Return texts as numbers. Shouted words count as words with or without a capital."""
    items = [item for line in lines for item in line]
    marks = np.array([item.mark for item in items], np.int64)
    ends = np.isin(marks, _SENTENCE_ENDS)
    begins = np.concatenate([[True], ends[:-1]])
    cases = np.array([item.case for item in items], np.int64)
    for index in np.nonzero(cases == UPPER)[0]:
        if items[index].word.lower() not in capitals:
            cases[index] = CAPITAL if begins[index] else 0
    features = vocabulary.features([plain(item.word) for item in items])
    return Corpus(features, marks, cases, np.nonzero(begins)[0])


class Batch(NamedTuple):
    """Windows, padded at their ends."""

    features: Tensor
    """int32 `[B, T, FEATURES]`."""
    marks: Tensor
    """int64 `[B, T]`, -100 for padding."""
    cases: Tensor
    """As `marks`."""


def batches(corpus: Corpus, words: int, unknown: float, wrong: float, seed: int) -> Iterator[Batch]:
    """Yield random windows without end; `words` counts padding.

    `unknown` is the share of words that are shown without the word itself, `wrong` that of words in
    whose place another stands, as a recogniser errs.
    """
    generator = np.random.default_rng(seed)
    total = len(corpus.marks)
    while True:
        longest = int(generator.choice(LENGTHS, p=(0.15, 0.25, 0.3, 0.3)))
        rows = words // longest
        features = np.zeros((rows, longest, corpus.features.shape[1]), np.int32)
        marks = np.full((rows, longest), -100, np.int64)
        cases = np.full((rows, longest), -100, np.int64)
        at_start = generator.random(rows) < AT_SENTENCES
        at_end = generator.random(rows) < AT_SENTENCES
        sentences = generator.integers(0, len(corpus.starts), rows)
        for row in range(rows):
            start = int(corpus.starts[sentences[row]])
            if not at_start[row]:
                start = min(start + int(generator.integers(0, 12)), total - 1)
            end = min(start + int(generator.integers(max(2, longest // 3), longest + 1)), total)
            if at_end[row]:
                after = int(np.searchsorted(corpus.starts, end, "right")) - 1
                end = int(corpus.starts[after]) if corpus.starts[after] > start else end
            here = slice(0, end - start)
            features[row, here] = corpus.features[start:end]
            marks[row, here] = corpus.marks[start:end]
            cases[row, here] = corpus.cases[start:end]
        hidden = (generator.random((rows, longest)) < unknown) & (marks >= 0)
        features[:, :, 0][hidden] = UNKNOWN
        misheard = (generator.random((rows, longest)) < wrong) & (marks >= 0)
        features[misheard] = corpus.features[generator.integers(0, total, int(misheard.sum()))]
        cases[misheard] = -100
        yield Batch(*map(torch.from_numpy, (features, marks, cases)))
