"""An n-gram read and scored by pocketsphinx, which shares no code with Conch."""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

_LOG_BASE = math.log(1.0001)
"""pocketsphinx counts in integer powers of 1.0001."""
_IMPOSSIBLE = -(2**29)
"""What it answers for a word that it does not know."""


class PocketsphinxModel:
    """An n-gram of an ARPA file or a `.lm.bin`."""

    def __init__(self, path: Path, oov_log_prob: float) -> None:
        """Read the file; skip the test where pocketsphinx is not installed."""
        pocketsphinx = pytest.importorskip("pocketsphinx")
        pocketsphinx.set_loglevel("FATAL")
        self._model = pocketsphinx.NGramModel.readfile(str(path))
        self._oov_log_prob = oov_log_prob

    def score(self, words: Sequence[str]) -> float:
        """Return the natural log probability of the words and of the sentence's end."""
        sentence = ["<s>", *words, "</s>"]
        return sum(
            self.word_score(word, sentence[place::-1]) for place, word in enumerate(sentence[1:])
        )

    def word_score(self, word: str, newest_first: Sequence[str]) -> float:
        """Return the natural log probability of a word after others, the newest first."""
        log_prob = self._model.prob([word, *newest_first[: self._model.size() - 1]])
        return self._oov_log_prob if log_prob <= _IMPOSSIBLE else float(log_prob * _LOG_BASE)
