"""Give voices the names of known speakers."""

from collections.abc import Iterable, Sequence
from itertools import count

import numpy as np

from conch.component.arrays import FloatArray
from conch.families.speakers.assignment import VoiceTurn
from conch.families.speakers.clustering import one_to_one
from conch.wire.known_speakers import KnownSpeaker
from conch.wire.result import Turn

KNOWN, LINE_KNOWN = 0.5, 0.7
"""Least cosine of a voice to that of a known speaker, the second over a telephone line. One that is
nearest to a name, but below, stays without it."""


class Labels:
    """The labels of voices, by their numbers: names of known speakers, and letters of the others.

    A voice has a letter until it is known, and then its name. Letters are given when they are asked
    for, and never to another voice.
    """

    def __init__(self, known: Sequence[KnownSpeaker] = ()) -> None:
        """Speakers without an embedding have none of the names."""
        self._known = [(it.name, it.embedding) for it in known if it.embedding is not None]
        taken = {item.name for item in known}
        self._next = (name for name in map(name_of, count()) if name not in taken)
        self._letters: dict[int, str] = {}
        self._names: dict[int, str] = {}

    def learn(self, voices: FloatArray, least: Sequence[float], *, anew: bool = False) -> None:
        """Name the voices that are known; with `anew`, take back all names before.

        `voices` are of unit length, `[voices, size]`, or zeros; `least` are KNOWN or LINE_KNOWN.
        """
        if anew:
            self._names = {}
        taken = {name for voice, name in self._names.items() if voices[voice].any()}
        free = [item for item in self._known if item[0] not in taken]
        strangers = [voice for voice in range(len(voices)) if voice not in self._names]
        if free and strangers:
            sounds = np.array([sound for _, sound in free])
            found = matched(voices[strangers], sounds, [least[voice] for voice in strangers])
            self._names |= {strangers[voice]: free[who][0] for voice, who in found.items()}

    def of(self, voice: int) -> str:
        if voice in self._names:
            return self._names[voice]
        if voice not in self._letters:
            self._letters[voice] = next(self._next)
        return self._letters[voice]

    def turns(self, turns: Iterable[VoiceTurn]) -> list[Turn]:
        """Return turns of voices as an answer has them."""
        return [Turn(self.of(it.voice), round(it.start, 3), round(it.end, 3)) for it in turns]


def matched(voices: FloatArray, known: FloatArray, least: Sequence[float]) -> dict[int, int]:
    """Return which known speaker each voice is, by number; no two voices are the same, best first.

    `voices` and `known` are of unit length, `[N, size]`; `least` are cosines, `[voices]`.
    """
    margins = voices @ known.T - np.array(least)[:, None]
    return one_to_one(np.where(margins >= 0, margins, -np.inf))


def name_of(number: int) -> str:
    """Return a label: A to Z, then AA, AB, …

    >>> name_of(0), name_of(25), name_of(26)
    ('A', 'Z', 'AA')
    """
    before, last = divmod(number, 26)
    return (name_of(before - 1) if before else "") + chr(ord("A") + last)
