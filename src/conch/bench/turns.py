"""Turns of speakers, and how far two lists of them are from each other.

The diarization error rate is the share of speaker time that is missed, false or given to somebody
else, under the best one-to-one naming of speakers (NIST, Rich Transcription 2009). Overlapping
speech counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conch.wire.errors import BenchError
from conch.wire.result import Turn


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

    @property
    def shares(self) -> tuple[float, float, float]:
        """What is missed, false and confused, each a fraction of the speech."""
        parts = (self.missed_s, self.false_s, self.confused_s)
        missed, false, confused = (part / max(self.spoken_s, 1e-9) for part in parts)
        return missed, false, confused

    def __add__(self, other: "SpeakerErrors") -> "SpeakerErrors":
        return SpeakerErrors(
            self.spoken_s + other.spoken_s,
            self.missed_s + other.missed_s,
            self.false_s + other.false_s,
            self.confused_s + other.confused_s,
        )


NO_ERRORS = SpeakerErrors(0.0, 0.0, 0.0, 0.0)


def errors(
    reference: Sequence[Turn], found: Sequence[Turn], collar_s: float = 0.0
) -> SpeakerErrors:
    """Return how far turns are from the reference; those of one speaker may overlap.

    `collar_s` on each side of a turn's start and end in the reference does not count.
    """
    bounds = [edge for turn in reference for edge in (turn.start, turn.end)] if collar_s else []
    around = [edge + side for edge in bounds for side in (-collar_s, collar_s)]
    edges = edges_of((*reference, *found), around)
    if len(edges) < 2:
        return NO_ERRORS
    lengths = np.diff(edges)
    middles = edges[:-1] + lengths / 2
    for edge in bounds:
        lengths[np.abs(middles - edge) < collar_s] = 0
    spoken, heard = activity(reference, edges), activity(found, edges)
    right_s = sum(shared_s for _, _, shared_s in matched(spoken, heard, lengths))
    num_spoken, num_heard = spoken.sum(axis=0), heard.sum(axis=0)
    both_s = float(np.minimum(num_spoken, num_heard) @ lengths)
    return SpeakerErrors(
        spoken_s=float(num_spoken @ lengths),
        missed_s=float(np.maximum(num_spoken - num_heard, 0) @ lengths),
        false_s=float(np.maximum(num_heard - num_spoken, 0) @ lengths),
        confused_s=both_s - right_s,
    )


def speakers_of(turns: Sequence[Turn]) -> list[str]:
    """Return the speakers of turns in alphabetical order."""
    return sorted({turn.speaker for turn in turns})


def read_rttm(text: str, name: str) -> dict[str, list[Turn]]:
    """Return the turns of each recording in a text of NIST's format RTTM."""
    found: dict[str, list[Turn]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split()
        if not fields or fields[0] != "SPEAKER":
            continue
        try:
            recording, start, length, speaker = (fields[place] for place in (1, 3, 4, 7))
            turn = Turn(speaker, float(start), float(start) + float(length))
        except (IndexError, ValueError):
            form = "SPEAKER file 1 start length <NA> <NA> speaker"
            raise BenchError(f"{name}, line {number} takes {form}; it has: {line[:100]}") from None
        found.setdefault(recording, []).append(turn)
    return found


def edges_of(turns: Sequence[Turn], more: Sequence[float] = ()) -> NDArray[np.float64]:
    """Return when anybody begins or ends, and more times, in order."""
    return np.unique([*more, *(edge for turn in turns for edge in (turn.start, turn.end))])


def matched(
    spoken: NDArray[np.bool_], heard: NDArray[np.bool_], lengths: NDArray[np.float64]
) -> list[tuple[int, int, float]]:
    """Return pairs of speakers, of the reference and found, which share the most seconds."""
    # Imported here: of the benchmarks, this one alone needs it.
    from scipy.optimize import linear_sum_assignment

    shared = (spoken * lengths) @ heard.T.astype(float)
    rows, columns = linear_sum_assignment(-shared)
    return [
        (int(row), int(column), float(shared[row, column]))
        for row, column in zip(rows, columns, strict=True)
    ]


def activity(turns: Sequence[Turn], edges: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return who speaks between which edges, [speakers, edges - 1]."""
    names = speakers_of(turns)
    active = np.zeros((len(names), len(edges) - 1), bool)
    for turn in turns:
        first, behind = np.searchsorted(edges, (turn.start, turn.end))
        active[names.index(turn.speaker), first:behind] = True
    return active
