"""When each word is spoken, by the durations of its sounds."""

import numpy as np

from conch.component.arrays import Array
from conch.wire.synthesis import SpokenWord


def word_times(text: str, spans: Array, durations: Array, frame_s: float) -> tuple[SpokenWord, ...]:
    """Return the words of a sentence with seconds from its begin.

    `spans` are integers [words, 4]: start and end in the text, first token and behind the last.
    `durations` are frames of each token, of `frame_s` seconds.
    """
    ends = np.concatenate([[0], np.cumsum(durations)]) * frame_s
    return tuple(
        SpokenWord(text[start:end], round(float(ends[first]), 4), round(float(ends[last]), 4))
        for start, end, first, last in np.asarray(spans, np.int64).tolist()
    )
