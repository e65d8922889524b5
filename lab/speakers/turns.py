"""Turns of speakers, and how far two lists of them are from each other.

The diarization error rate is the share of speaker time that is missed, false or given to somebody
else, under the best one-to-one naming of speakers (NIST, Rich Transcription 2009). There is no
collar, and overlapping speech counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment


@dataclass(frozen=True, slots=True)
class Turn:
    """A stretch of speech by one speaker, in seconds."""

    speaker: str
    start: float
    end: float
    text: str = ""


@dataclass(frozen=True, slots=True)
class SpeakerErrors:
    """Speaker time in seconds, as of the NIST scorer."""

    spoken_s: float
    missed_s: float
    false_s: float
    confused_s: float

    @property
    def rate(self) -> float:
        """The diarization error rate, a fraction."""
        return (self.missed_s + self.false_s + self.confused_s) / max(self.spoken_s, 1e-9)

    def __add__(self, other: "SpeakerErrors") -> "SpeakerErrors":
        return SpeakerErrors(
            self.spoken_s + other.spoken_s,
            self.missed_s + other.missed_s,
            self.false_s + other.false_s,
            self.confused_s + other.confused_s,
        )


NO_ERRORS = SpeakerErrors(0.0, 0.0, 0.0, 0.0)


def errors(reference: Sequence[Turn], found: Sequence[Turn]) -> SpeakerErrors:
    """Return how far turns are from the reference; those of one speaker may overlap."""
    edges = np.unique([edge for turn in (*reference, *found) for edge in (turn.start, turn.end)])
    if len(edges) < 2:
        return NO_ERRORS
    lengths = np.diff(edges)
    spoken, heard = _activity(reference, edges), _activity(found, edges)
    shared = (spoken * lengths) @ heard.T.astype(float)
    rows, columns = linear_sum_assignment(-shared)
    right_s = float(shared[rows, columns].sum())
    num_spoken, num_heard = spoken.sum(axis=0), heard.sum(axis=0)
    both_s = float(np.minimum(num_spoken, num_heard) @ lengths)
    return SpeakerErrors(
        spoken_s=float(num_spoken @ lengths),
        missed_s=float(np.maximum(num_spoken - num_heard, 0) @ lengths),
        false_s=float(np.maximum(num_heard - num_spoken, 0) @ lengths),
        confused_s=both_s - right_s,
    )


def overlap_share(turns: Sequence[Turn]) -> float:
    """Return the share of the time with speech in which several speak."""
    edges = np.unique([edge for turn in turns for edge in (turn.start, turn.end)])
    counts, lengths = _activity(turns, edges).sum(axis=0), np.diff(edges)
    return float(lengths[counts > 1].sum() / max(lengths[counts > 0].sum(), 1e-9))


def naming(reference: Sequence[Turn], found: Sequence[Turn]) -> dict[str, str]:
    """Return the speaker of the reference whom each found speaker stands for, if any."""
    edges = np.unique([edge for turn in (*reference, *found) for edge in (turn.start, turn.end)])
    theirs, ours = speakers_of(reference), speakers_of(found)
    spoken, heard = _activity(reference, edges), _activity(found, edges)
    shared = (spoken * np.diff(edges)) @ heard.T.astype(float)
    rows, columns = linear_sum_assignment(-shared)
    return {ours[column]: theirs[row] for row, column in zip(rows, columns, strict=True)}


def speakers_of(turns: Sequence[Turn]) -> list[str]:
    """Return the speakers of turns in alphabetical order."""
    return sorted({turn.speaker for turn in turns})


def _activity(turns: Sequence[Turn], edges: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return who speaks between which edges, [speakers, edges - 1]."""
    names = speakers_of(turns)
    active = np.zeros((len(names), len(edges) - 1), bool)
    for turn in turns:
        first, behind = np.searchsorted(edges, (turn.start, turn.end))
        active[names.index(turn.speaker), first:behind] = True
    return active
