"""The network that sets punctuation and capitals, in ONNX Runtime."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conch.component.arrays import FloatArray
from conch.component.onnx import open_network, session_options
from conch.families.punctuation.words import FEATURES, Vocabulary, plain
from conch.wire.errors import ConfigError

SHIPPED = Path(__file__).parent / "weights" / "punctuation-en.onnx"
"""Model for English."""
MARKS = ("", ",", ".", "?")
"""What may stand after a word, in the order of the network's outputs."""
LOWER, CAPITAL, UPPER = range(3)
"""Cases of a word, in the order of the network's outputs after MARKS."""
_WINDOW = 128
"""Words of a window that count; those of its context do not."""
_BATCH_WORDS = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class PunctuatorConfig:
    model: str = ""
    """Path of an .onnx file of `lab.training.punctuation.export`; empty for the shipped model."""
    language: str = "en"
    """Code of the language of the model. Texts of another stay as they are."""
    intra_threads: int = 1
    """CPU threads of one call; the network is too small for more."""


class Labels(NamedTuple):
    """What the network says of the words of a text."""

    marks: NDArray[np.int64]
    """`[N]`, of MARKS."""
    cases: NDArray[np.int64]
    """`[N]`: LOWER, CAPITAL or UPPER."""


class Window(NamedTuple):
    text: int
    """Number of the text."""
    start: int
    """First word that the network sees."""
    end: int
    """After the last word that it sees."""
    first: int
    """First word whose labels count."""
    last: int
    """After the last word whose labels count."""


class PunctuationModel:
    def __init__(self, config: PunctuatorConfig) -> None:
        path = Path(config.model) if config.model else SHIPPED
        options = session_options(config.intra_threads, keeps_memory=False)
        options.enable_cpu_mem_arena = False
        self._session = open_network("the punctuation model", path, options)
        described = self._session.get_modelmeta().custom_metadata_map
        try:
            self._vocabulary = Vocabulary(json.loads(described["words"]))
            self.inside: dict[str, str] = json.loads(described["inside"])
            self._reach, self._end = int(described["reach"]), float(described["end"])
        except (KeyError, ValueError) as error:
            raise ConfigError(
                f"{path} is not a graph of lab.training.punctuation.export: it lacks {error}"
            ) from error

    def label(self, texts: Sequence[Sequence[str]]) -> list[Labels]:
        """Return the labels of each text's words, as of one window; its windows overlap."""
        found = [
            Labels(np.zeros(len(words), np.int64), np.zeros(len(words), np.int64))
            for words in texts
        ]
        features = [self._vocabulary.features([plain(word) for word in words]) for words in texts]
        for batch in batches_of([len(words) for words in texts], self._reach):
            longest = max(window.end - window.start for window in batch)
            rows = np.zeros((len(batch), longest, FEATURES), np.int32)
            for row, window in zip(rows, batch, strict=True):
                row[: window.end - window.start] = features[window.text][window.start : window.end]
            logits: FloatArray = self._session.run(["logits"], {"features": rows})[0]
            for row, window in zip(logits, batch, strict=True):
                if window.last == len(texts[window.text]):
                    # Speech is cut at a pause, which a book has not.
                    row[window.last - window.start - 1, 0] -= self._end
            marks = logits[:, :, : len(MARKS)].argmax(-1)
            cases = logits[:, :, len(MARKS) :].argmax(-1)
            for row_marks, row_cases, window in zip(marks, cases, batch, strict=True):
                whole = slice(window.first, window.last)
                part = slice(window.first - window.start, window.last - window.start)
                found[window.text].marks[whole] = row_marks[part]
                found[window.text].cases[whole] = row_cases[part]
        return found


def windows_of(lens: Sequence[int], reach: int) -> Iterator[Window]:
    """Yield windows over texts of `lens` words; labels depend on `reach` words on each side."""
    for text, words in enumerate(lens):
        for first in range(0, words, _WINDOW):
            last = min(first + _WINDOW, words)
            yield Window(text, max(0, first - reach), min(words, last + reach), first, last)


def batches_of(lens: Sequence[int], reach: int) -> Iterator[list[Window]]:
    """Yield the windows, similar lengths together, at most `_BATCH_WORDS` words at a time."""
    left = iter(sorted(windows_of(lens, reach), key=lambda window: window.start - window.end))
    for longest in left:
        rows = max(1, _BATCH_WORDS // (longest.end - longest.start))
        yield [longest, *islice(left, rows - 1)]
