"""When each word was said: from an alignment of tokens with frames to words with times.

The alignment is a dynamic time warping over Whisper's cross-attention, as openai-whisper does it
(https://github.com/openai/whisper/blob/main/whisper/timing.py).
"""

import math
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conch.models.whisper.config import ENCODER_FRAME_S
from conch.wire.result import Word

_OPENING = "\"'“‘¿([{-"  # noqa: RUF001
_SENTENCE_ENDS = (".", "。", "!", "！", "?", "？")  # noqa: RUF001
_MAX_MEDIAN_S = 0.7
"""Where words last longer in the median, the median is not to be trusted."""
_MIN_WORD_S = 0.04
"""Shorter words, of which the alignment has passed all tokens in one frame, are given more."""
_ROUNDING_S = 1e-6
"""What sums of seconds may be off."""


@dataclass(slots=True)
class WordTokens:
    """A word and where it lies among the tokens of its text."""

    text: str
    start: int
    """First token that is not punctuation."""
    end: int
    """After the last token that is not punctuation."""


def split_words(
    tokens: Sequence[int], decode: Callable[[Sequence[int]], str], *, spaced: bool
) -> list[WordTokens]:
    """Group tokens into words, punctuation attached.

    Args:
        tokens: of one text.
        decode: from tokens to text.
        spaced: whether spaces part words; without, each character is one.
    """
    words: list[WordTokens] = []
    opening = ""
    for text, start, end in _characters(tokens, decode):
        is_new = not words or opening != "" or text.startswith(" ") or not spaced
        if _is_content(text):
            if is_new:
                words.append(WordTokens(opening + text, start, end))
                opening = ""
            else:
                words[-1].text += text
                words[-1].end = end
        elif not words or (is_new and text.strip() and text.strip() in _OPENING):
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


def _is_content(text: str) -> bool:
    """Whether a text holds a letter, a mark of one or a digit: not punctuation only."""
    return any(unicodedata.category(char)[0] in "LMN" for char in text)


def _characters(
    tokens: Sequence[int], decode: Callable[[Sequence[int]], str]
) -> list[tuple[str, int, int]]:
    """Return the shortest runs of tokens that are whole characters: text, start, end."""
    runs = []
    start = 0
    for end in range(1, len(tokens) + 1):
        text = decode(tokens[start:end])
        # Byte-level tokens may end within a character, which decodes as a replacement character.
        if not text.endswith("\ufffd") or end == len(tokens):
            runs.append((text, start, end))
            start = end
    return runs


def time_words(
    words: Sequence[WordTokens],
    alignment: Sequence[tuple[int, int]],
    token_probs: Sequence[float],
    num_frames: int,
) -> list[Word]:
    """Return words with their times and confidences.

    Args:
        words: of one text.
        alignment: path of (token, frame of 20 ms) pairs over the text's tokens and the end of
            text; every token is on it.
        token_probs: probability of each token of the text.
        num_frames: frames that hold audio; no word goes beyond.

    Returns:
        Words in order, 0 <= start < end; none begins before the one before it ends.
    """
    path = np.asarray(alignment, dtype=np.int64).reshape(-1, 2)
    first = np.flatnonzero(np.diff(path[:, 0], prepend=-1))  # where the path enters a token
    entered_s = path[first, 1] * ENCODER_FRAME_S
    limit = num_frames * ENCODER_FRAME_S
    starts = np.minimum([entered_s[word.start] for word in words], limit)
    ends = np.minimum([entered_s[word.end] for word in words], limit)
    starts = _without_pauses(words, starts, ends)
    starts, ends = _with_lengths([len(word.text) for word in words], starts, ends, limit)
    return [
        Word(
            word.text,
            float(start),
            float(end),
            confidence(token_probs[word.start : word.end]),
        )
        for word, start, end in zip(words, starts, ends, strict=True)
    ]


def _without_pauses(
    words: Sequence[WordTokens], starts: NDArray[np.float64], ends: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return starts such that a pause before a sentence does not count to its first word.

    The attention has nowhere else to go in a pause, so that it is given to the next word;
    openai-whisper also limits such words to twice the median duration.
    """
    durations = (ends - starts)[ends > starts]
    if not len(durations):
        return starts
    longest = 2 * min(float(np.median(durations)), _MAX_MEDIAN_S)
    after_pause = [
        index == 0 or words[index - 1].text.endswith(_SENTENCE_ENDS) for index in range(len(words))
    ]
    return np.where(after_pause, np.maximum(starts, ends - longest), starts)


def _with_lengths(
    sizes: Sequence[int], starts: NDArray[np.float64], ends: NDArray[np.float64], limit: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return starts and ends such that no word is too short to be heard.

    A short word takes from the pause behind it, then from the one before it. Between words it
    shares the time of its neighbours and their pauses, the longer words taking more.

    Args:
        sizes: characters of each word.
        starts, ends: seconds of each; neither decreases.
        limit: where the audio ends, in seconds.
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
            # As spoken: a word of one letter takes more than an eighth of one with eight.
            shares = np.cumsum([0, *(3 + size for size in sizes[first : last + 1])])
            edges = np.interp(shares, [0, shares[-1]], [starts[first], ends[last]])
            starts[first : last + 1], ends[first : last + 1] = edges[:-1], edges[1:]
    return starts, ends


def confidence(probs: Sequence[float]) -> float:
    """Return the geometric mean of probabilities."""
    return math.exp(sum(math.log(max(prob, 1e-30)) for prob in probs) / max(1, len(probs)))
