"""What the CTC search finds: hypotheses, and the words of one with their times."""

import math
from dataclasses import dataclass

from conch.wire.result import Word


@dataclass(frozen=True, slots=True)
class CtcHypothesis:
    """One candidate text; every score is a natural logarithm, higher is better."""

    text: str
    """Words parted by one space each."""
    am_score: float
    """Log of the summed probabilities of the paths of this text that the beam kept."""
    lm_score: float
    """Log probability of the words by the n-gram, unweighted; the end of the sentence counts
    once the hypothesis is final. 0 without the n-gram."""
    bias_score: float
    """What hotwords add, that of one still being matched included unless final."""
    score: float
    """What hypotheses are ranked by: `am_score + lm_weight · lm_score + word_bonus · words +
    bias_score`, less what a beginning of no known word costs until its word is complete."""
    units: tuple[int, ...]
    """Ids of the vocabulary, blanks left out, spaces as the text has them."""
    texts: tuple[str, ...]
    """The text of each unit."""
    frames: tuple[int, ...]
    """For each unit, the frame of the stream where most of its probability came in."""
    log_probs: tuple[float, ...]
    """For each unit, its log posterior at its best frame from there to the next unit."""


def words_of(hypothesis: CtcHypothesis, frame_s: float) -> tuple[Word, ...]:
    """Return the words of a hypothesis.

    A word starts with the frame of its first unit and ends with that of its last. Its confidence
    is the geometric mean of the posteriors of its units, each at its best frame.

    Args:
        hypothesis: of any vocabulary whose units hold a space only at their beginning.
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
