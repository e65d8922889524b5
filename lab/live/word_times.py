"""Times of reference words: a manifest has none, so Conch's offline path gives them."""

import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from conch.bench.load import Offer
from conch.bench.offline import send_all
from conch.bench.samples import Sample
from conch.bench.servers import NO_HEADERS
from conch.scoring.error_rates import ENGLISH_WORDS, Scoring
from conch.wire.result import Word
from lab.alignment import TimedWord, equal_words

CLIENTS = 4


class WordTimes:
    """The timed reference words of utterances; the server is asked once for each."""

    def __init__(
        self,
        samples: Sequence[Sample],
        options: Mapping[str, Any],
        headers: Mapping[str, str] = NO_HEADERS,
        scoring: Scoring = ENGLISH_WORDS,
    ) -> None:
        """Start without any times; of the streams' options, the offline path gets the language."""
        self._samples, self._headers, self._scoring = samples, headers, scoring
        self._options = {key: value for key, value in options.items() if key == "language"}
        self._known: dict[int, tuple[TimedWord, ...]] = {}

    def of(self, url: str, indices: Iterable[int]) -> Mapping[int, tuple[TimedWord, ...]]:
        """Return the reference words of utterances, in seconds from the start of each.

        A message on standard error counts words whose times are only interpolated because the
        server did not transcribe their utterance.
        """
        unknown = [
            index
            for index in dict.fromkeys(indices)
            if index not in self._known and self._samples[index].utterance.text.strip()
        ]
        if unknown:
            self._known |= self._ask(url, unknown)
        return self._known

    def _ask(self, url: str, unknown: Sequence[int]) -> dict[int, tuple[TimedWord, ...]]:
        samples = [self._samples[index] for index in unknown]
        load = asyncio.run(
            send_all(
                url,
                samples,
                offered=Offer(concurrency=CLIENTS),
                options={"word_timestamps": True, **self._options},
                title="times of words",
                headers=self._headers,
            )
        )
        if errors := [outcome.error for outcome in load.outcomes if outcome.error]:
            print(
                f"lab live: the server gives no word times of {len(errors)} of {len(unknown)} "
                f"utterances, so they are spread by characters: {errors[0]}",
                file=sys.stderr,
            )
        return {
            index: timed_words(
                sample.utterance.text,
                outcome.answer.words if outcome.answer else (),
                sample.duration_s,
                self._scoring,
            )
            for index, sample, outcome in zip(unknown, samples, load.outcomes, strict=True)
        }


def timed_words(
    reference: str, recognised: Sequence[Word], duration_s: float, scoring: Scoring = ENGLISH_WORDS
) -> tuple[TimedWord, ...]:
    """Return the normalised words of a reference with the times of recognised words.

    The normaliser changes the number of words: "twenty five" becomes "25". So it takes the
    reference as a whole, and recognised words one at a time. A recognised word that becomes several
    shares its time among them. The two are aligned by edit distance. A reference word has the times
    of an equal recognised word. Other words share the time between their timed neighbours by
    their numbers of characters; without any recognised word, over the whole utterance.
    """
    texts = scoring.tokens(reference)
    pieces = [piece for word in recognised for piece in _pieces(word, duration_s, scoring)]
    if not texts:
        return ()
    start_s, end_s = (pieces[0].start_s, pieces[-1].end_s) if pieces else (0.0, duration_s)
    words: list[TimedWord] = []
    equal = equal_words(texts, [piece.text for piece in pieces])
    anchors = [(-1, TimedWord("", start_s, start_s))]
    anchors += [(index, pieces[other]) for index, other in equal]
    anchors += [(len(texts), TimedWord("", end_s, end_s))]
    for (index, before), (following, after) in pairwise(anchors):
        if index >= 0:
            words.append(replace(before, text=texts[index]))
        words += spread(texts[index + 1 : following], before.end_s, after.start_s)
    return tuple(words)


def spread(texts: Sequence[str], start_s: float, end_s: float) -> list[TimedWord]:
    """Return words that share a span of time by their numbers of characters."""
    lengths = np.cumsum([0, *map(len, texts)])
    edges = start_s + max(0.0, end_s - start_s) * lengths / max(1, lengths[-1])
    return [
        TimedWord(text, float(begins), float(ends))
        for text, (begins, ends) in zip(texts, pairwise(edges), strict=True)
    ]


def _pieces(word: Word, duration_s: float, scoring: Scoring) -> list[TimedWord]:
    start_s, end_s = (min(max(0.0, edge), duration_s) for edge in (word.start, word.end))
    return spread(scoring.tokens(word.text), start_s, end_s)
