"""The voices of a live stream that has ended: clustering finds them anew in what was embedded.

The letters of the stream stay with the voices that agree.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from conch.component.arrays import Array, FloatArray, IntArray
from conch.component.waveform import SAMPLE_RATE
from conch.families.speakers.assignment import LEAST_S, VoiceTurn
from conch.families.speakers.clustering import one_to_one, sure_voices
from conch.families.speakers.declaration import FRAME_SAMPLES
from conch.families.speakers.pieces import second_at
from conch.wire.turns import PAUSE_S

FRAME_S = FRAME_SAMPLES / SAMPLE_RATE
SURE_S = 0.97
"""Least that was embedded of a piece that finds voices at the end."""
CLOSED, LEAST = round(PAUSE_S / FRAME_S), round(LEAST_S / FRAME_S)


class Piece(NamedTuple):
    """What was embedded, and whose voice it was taken for; -1 for nobody's."""

    frame: float
    """Middle of the piece."""
    seconds: float
    voice: int
    embedding: Array
    """float16, as a stream of hours has thousands."""


class Run(NamedTuple):
    """A stretch in which a voice speaks."""

    voice: int
    first: int
    behind: int


@dataclass(frozen=True, slots=True)
class HeardPieces:
    embeddings: FloatArray
    """Embeddings of unit length, `[pieces, size]`."""
    seconds: FloatArray
    before: IntArray
    """Voice that each piece was taken for."""

    @property
    def is_sure(self) -> Array:
        """Whether each finds voices, bool `[pieces]`."""
        return self.seconds >= SURE_S


def heard_of(pieces: Sequence[Piece]) -> HeardPieces:
    embeddings, seconds, before = (
        np.array([getattr(piece, name) for piece in pieces])
        for name in ("embedding", "seconds", "voice")
    )
    return HeardPieces(embeddings.astype(np.float32), seconds.astype(np.float32), before)


@dataclass(frozen=True, slots=True)
class Relabelled:
    parts: Sequence[tuple[int, Run]]
    """Place of a run of the stream, and a part of it, with the voice that it has now."""
    sounds: FloatArray
    """How the voices sound, by their numbers, `[voices, size]`; zeros of those that are no more."""


def relabelled(
    runs: Sequence[Run],
    pieces: Sequence[Piece],
    *,
    is_line: bool,
    fewest: int = 1,
    most: int | None = None,
) -> Relabelled:
    """Return the settled runs of a stream with the voices that clustering finds in its pieces.

    A voice that agrees with one of the stream has its number.
    """
    owned = [piece for piece in pieces if piece.voice >= 0]
    if not owned:
        return Relabelled([*enumerate(runs)], np.zeros((0, 0), np.float32))
    heard = heard_of(owned)
    found = sure_voices(
        *(heard.embeddings, heard.seconds, heard.is_sure), is_line=is_line, fewest=fewest, most=most
    )
    before, places = heard.before, np.array([piece.frame for piece in owned])
    now = (heard.embeddings @ found.T).argmax(axis=1)
    numbers = kept_numbers(before, now, heard.seconds)
    now = numbers[now]
    sounds = np.zeros((numbers.max() + 1, found.shape[1]), np.float32)
    sounds[numbers] = found[: len(numbers)]
    parts: list[tuple[int, Run]] = []
    for place, run in enumerate(runs):
        (own,) = np.nonzero(before == run.voice)
        # Between two pieces, the nearer one counts.
        between = (places[own][1:] + places[own][:-1]) / 2
        edges = np.searchsorted(between, (run.first, run.behind))
        cuts = [run.first, *between[slice(*edges)].astype(int).tolist(), run.behind]
        voice_of = now[own[edges[0] : edges[0] + len(cuts) - 1]].tolist()
        parts += [
            (place, Run(voice, start, end))
            for voice, (start, end) in zip(voice_of, pairwise(cuts), strict=True)
        ]
    return Relabelled(parts, sounds)


def turn_of(run: Run) -> VoiceTurn:
    return VoiceTurn(run.voice, second_at(run.first), second_at(run.behind))


def kept_numbers(before: IntArray, now: IntArray, seconds: Array) -> IntArray:
    """Return the number of each voice in `now`: that of most of its time `before`, or a new one."""
    shared = np.zeros((now.max() + 1, before.max() + 1))
    np.add.at(shared, (now, before), seconds)
    numbers = np.full(len(shared), -1)
    for voice, number in one_to_one(np.where(shared > 0, shared, -np.inf)).items():
        numbers[voice] = number
    is_new = numbers < 0
    numbers[is_new] = shared.shape[1] + np.arange(is_new.sum())
    return numbers


def is_long(run: Run) -> bool:
    """Return whether a run is long enough to be a turn."""
    return run.behind - run.first >= LEAST
