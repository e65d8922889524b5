"""Word times from an alignment of tokens with frames.

The alignment is a dynamic time warping over the decoder's cross-attention, as in openai-whisper
(https://github.com/openai/whisper/blob/main/whisper/timing.py).
"""

import math
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from conch.component import FloatArray
from conch.wire.joining import is_within_word
from conch.wire.result import Word

_OPENING = "\"'¿¡-"
"""Marks of the next word, besides those that Unicode calls opening."""
_SENTENCE_ENDS = (".", "。", "!", "！", "?", "？")  # noqa: RUF001
_MAX_MEDIAN_S = 0.7
"""Longest trusted median of word lengths, in seconds."""
_MAX_WORD_S = 4.0
"""A longer word holds a pause, or speech that the text leaves out."""
_MIN_WORD_S = 0.04
"""Shortest word in seconds. Words whose tokens all align with one frame get more time."""
_ROUNDING_S = 1e-6
_MEDIAN_FRAMES = 7


@dataclass(slots=True)
class WordTokens:
    """A word and its place among the tokens of its text."""

    text: str
    start: int
    """Index of the first token that is not punctuation."""
    end: int
    """Index after the last token that is not punctuation."""


def split_words(
    tokens: Sequence[int], decode: Callable[[Sequence[int]], str], *, spaced: bool
) -> list[WordTokens]:
    """Return the words of tokens; if not `spaced`, letters of unspaced scripts are words."""
    words: list[WordTokens] = []
    opening = ""
    for text, start, end in _characters(tokens, decode):
        is_new = not words or opening != "" or text.startswith(" ")
        # Words of other scripts may have several tokens, among characters that are words.
        is_new = is_new or not (spaced or is_within_word(words[-1].text, text))
        if _is_content(text):
            if words and text.startswith(" ") and not _is_opening(opening):
                words[-1].text += opening
                opening = ""
            if is_new:
                words.append(WordTokens(opening + text, start, end))
                opening = ""
            else:
                words[-1].text += text
                words[-1].end = end
        elif not words or opening or _begins_with_space(text) or (is_new and _is_opening(text)):
            # What has a space in front may be a sign of the word behind it, as in "cost $5".
            opening += text
        else:
            words[-1].text += text
    if opening and words:
        words[-1].text += opening
    elif opening:
        words.append(WordTokens(opening, 0, len(tokens)))
    for word in words:
        word.text = word.text.strip()
    return words


def _begins_with_space(text: str) -> bool:
    return text.startswith(" ") and not text.isspace()


def _is_opening(text: str) -> bool:
    return all(
        char in _OPENING or unicodedata.category(char) in ("Ps", "Pi") for char in text.strip()
    )


def _is_content(text: str) -> bool:
    return any(unicodedata.category(char)[0] in "LMN" for char in text)


def _characters(
    tokens: Sequence[int], decode: Callable[[Sequence[int]], str]
) -> list[tuple[str, int, int]]:
    """Return the shortest runs of tokens that form whole characters, as (text, start, end)."""
    runs = []
    start = 0
    for end in range(1, len(tokens) + 1):
        text = decode(tokens[start:end])
        # A byte-level token may end within a character, and decodes to a replacement character.
        if not text.endswith("\ufffd") or end == len(tokens):
            runs.append((text, start, end))
            start = end
    return runs


def time_words(
    words: Sequence[WordTokens],
    alignment: Sequence[tuple[int, int]],
    token_probs: Sequence[float],
    num_frames: int,
    frame_s: float,
) -> list[Word]:
    """Return words with their times and confidences, in order and without overlaps.

    `alignment` are pairs of (token, frame) over all tokens of the text and the end of text. No word
    is empty, nor ends after `num_frames`.
    """
    path = np.asarray(alignment, dtype=np.int64).reshape(-1, 2)
    first = np.flatnonzero(np.diff(path[:, 0], prepend=-1))  # first pair of each token
    entered_s = path[first, 1] * frame_s
    limit = num_frames * frame_s
    starts = np.minimum([entered_s[word.start] for word in words], limit)
    ends = np.minimum([entered_s[word.end] for word in words], limit)
    starts = _without_pauses(words, starts, ends)
    starts, ends = _with_lengths([len(word.text) for word in words], starts, ends, limit)
    return [
        Word(word.text, float(start), float(end), confidence(token_probs[word.start : word.end]))
        for word, start, end in zip(words, starts, ends, strict=True)
    ]


def _without_pauses(
    words: Sequence[WordTokens], starts: NDArray[np.float64], ends: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return starts without the pause before the first word of a sentence.

    The alignment adds a pause to the next word. As in openai-whisper, such words last at most
    twice the median. So do those within a sentence that last longer than anybody speaks a word.
    """
    durations = (ends - starts)[ends > starts]
    if not len(durations):
        return starts
    longest = 2 * min(float(np.median(durations)), _MAX_MEDIAN_S)
    after_pause = [
        index == 0
        or words[index - 1].text.endswith(_SENTENCE_ENDS)
        or ends[index] - starts[index] > _MAX_WORD_S
        for index in range(len(words))
    ]
    return np.where(after_pause, np.maximum(starts, ends - longest), starts)


def _with_lengths(
    sizes: Sequence[int], starts: NDArray[np.float64], ends: NDArray[np.float64], limit: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return starts and ends of words, in seconds, that all last at least _MIN_WORD_S.

    A short word takes time from the pause after it, then from the pause before it. If that is not
    enough, it shares the time of its neighbours in proportion to the length of the words. `sizes`
    are their numbers of characters, `limit` is the end of the audio.
    """
    starts, ends = starts.copy(), ends.copy()
    count = len(sizes)
    for index in np.flatnonzero(ends - starts < _MIN_WORD_S - _ROUNDING_S):
        first, last = index, index
        while True:
            needed_s = _MIN_WORD_S * (last + 1 - first)
            free_from = ends[first - 1] if first else 0.0
            free_until = starts[last + 1] if last + 1 < count else limit
            ends[last] = max(ends[last], min(free_until, starts[first] + needed_s))
            starts[first] = min(starts[first], max(free_from, ends[last] - needed_s))
            if ends[last] - starts[first] > needed_s - _ROUNDING_S or last + 1 - first == count:
                break
            if last + 1 < count:
                last += 1
            else:
                first -= 1
        if first != last:
            # A word of one letter takes more than an eighth of the time of one with eight.
            shares = np.cumsum([0, *(3 + size for size in sizes[first : last + 1])])
            edges = np.interp(shares, [0, shares[-1]], [starts[first], ends[last]])
            starts[first : last + 1], ends[first : last + 1] = edges[:-1], edges[1:]
    return starts, ends


def confidence(probs: Sequence[float]) -> float:
    """Return the geometric mean of probabilities, 1 for none."""
    return math.exp(sum(math.log(max(prob, 1e-30)) for prob in probs) / max(1, len(probs)))


def warped(attention: FloatArray) -> list[tuple[int, int]]:
    """Return pairs of (token, frame) along the path of most attention, float32 `[tokens, frames]`.

    As in openai-whisper, attention is normalised over the tokens and smoothed over frames, and the
    path is found by dynamic time warping (Sakoe and Chiba, 1978,
    https://doi.org/10.1109/TASSP.1978.1163055).
    """
    mean, spread = attention.mean(axis=0), attention.std(axis=0)
    cost = -_smoothed((attention - mean) / (spread + 1e-9)).astype(float)
    totals = np.empty_like(cost)
    totals[0] = np.cumsum(cost[0])
    for token in range(1, len(cost)):
        # Steps within a token are sums, so the best frame to enter it is a running minimum.
        sums = np.cumsum(cost[token])
        above = totals[token - 1]
        entered = np.minimum(above, np.concatenate(([np.inf], above[:-1])))
        totals[token] = sums + np.minimum.accumulate(entered - (sums - cost[token]))
    return _path_back(totals)


def _smoothed(rows: FloatArray) -> FloatArray:
    """Return the medians around each frame; SciPy's filter would take 8 MB of memory."""
    side = _MEDIAN_FRAMES // 2
    windows = sliding_window_view(
        np.pad(rows, ((0, 0), (side, side)), "symmetric"), _MEDIAN_FRAMES, axis=1
    )
    return np.asarray(np.partition(windows, side, axis=-1)[..., side])


def _path_back(totals: FloatArray) -> list[tuple[int, int]]:
    token, frame = totals.shape[0] - 1, totals.shape[1] - 1
    path = [(token, frame)]
    while token or frame:
        before = [
            (totals[token - 1, frame - 1], token - 1, frame - 1) if token and frame else None,
            (totals[token - 1, frame], token - 1, frame) if token else None,
            (totals[token, frame - 1], token, frame - 1) if frame else None,
        ]
        _, token, frame = min(item for item in before if item)
        path.append((token, frame))
    return path[::-1]
