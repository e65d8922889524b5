"""Hypotheses of the CTC search, and their words with times."""

import math
from dataclasses import dataclass

from conch.wire.result import Word


@dataclass(frozen=True, slots=True)
class CtcHypothesis:
    """One candidate text; every score is a natural logarithm, higher is better."""

    text: str
    """Words separated by single spaces."""
    am_score: float
    """Log of the summed probabilities of this text's paths in the beam."""
    lm_score: float
    """Unweighted log probability of the words by the n-gram; 0 without the n-gram.

    A final hypothesis includes the end of the sentence.
    """
    bias_score: float
    """Score of the hotwords; before the final one it includes partial matches."""
    score: float
    """Score to rank by: `am_score + lm_weight · lm_score + word_bonus · words + bias_score`.

    An incomplete word that begins no known word costs extra until it is complete.
    """
    units: tuple[int, ...]
    """Ids of the units without blanks; spaces as in the text."""
    texts: tuple[str, ...]
    """The text of each unit."""
    frames: tuple[int, ...]
    """Frame of each unit, counted in the stream, that adds most of its probability."""
    log_probs: tuple[float, ...]
    """Log posterior of each unit at its best frame before the next unit."""


def words_of(hypothesis: CtcHypothesis, frame_s: float) -> tuple[Word, ...]:
    """Return the words of a hypothesis.

    A word starts with the frame of its first unit and ends with that of its last. Its confidence
    is the geometric mean of the posteriors of its units, each at its best frame.

    Args:
        hypothesis: its units may have a space only at their beginning.
        frame_s: seconds of a frame.
    """
    words: list[Word] = []
    text = ""
    frames: list[int] = []
    log_probs: list[float] = []

    def close() -> None:
        nonlocal text
        if text:
            confidence = math.exp(min(0.0, sum(log_probs) / len(log_probs)))
            start, end = frames[0] * frame_s, (frames[-1] + 1) * frame_s
            words.append(Word(text, start, end, confidence))
        text = ""
        frames.clear()
        log_probs.clear()

    units = zip(hypothesis.texts, hypothesis.frames, hypothesis.log_probs, strict=True)
    for piece, frame, log_prob in units:
        if piece.startswith(" "):
            close()
        letters = piece.strip()
        if letters:
            text += letters
            frames.append(frame)
            log_probs.append(log_prob)
    close()
    return tuple(words)
