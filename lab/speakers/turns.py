"""Turns of speakers with what they say, and how speakers of two lists go together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from conch.bench.turns import activity, edges_of, matched, speakers_of
from conch.wire.result import Turn as Found


@dataclass(frozen=True, slots=True)
class Turn(Found):
    """A stretch of speech by one speaker, in seconds, and what it says."""

    text: str = ""


def overlap_share(turns: Sequence[Found]) -> float:
    """Return the share of the time with speech in which several speak."""
    edges = edges_of(turns)
    counts, lengths = activity(turns, edges).sum(axis=0), np.diff(edges)
    return float(lengths[counts > 1].sum() / max(lengths[counts > 0].sum(), 1e-9))


def naming(reference: Sequence[Found], found: Sequence[Found]) -> dict[str, str]:
    """Return the speaker of the reference whom each found speaker stands for, if any."""
    edges = edges_of((*reference, *found))
    theirs, ours = speakers_of(reference), speakers_of(found)
    spoken, heard = activity(reference, edges), activity(found, edges)
    pairs = matched(spoken, heard, np.diff(edges))
    return {ours[column]: theirs[row] for row, column, _ in pairs}
