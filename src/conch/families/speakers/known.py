"""Give voices the names of known speakers; pure functions."""

from collections.abc import Sequence
from itertools import count

import numpy as np

from conch.component.arrays import FloatArray
from conch.wire.known_speakers import KnownSpeaker

KNOWN, LINE_KNOWN = 0.5, 0.7
"""Least cosine of a voice to that of a known speaker, the second over a telephone line. One that is
nearest to a name, but below, stays without it."""


def names_of(
    voices: Sequence[FloatArray], known: Sequence[KnownSpeaker], least: Sequence[float]
) -> list[str]:
    """Return a name for each voice: of a known speaker, or the next letter that is no such name.

    Args:
        voices: How each sounds, of unit length, float32 `[size]`.
        known: Speakers with embeddings of the same size.
        least: KNOWN or LINE_KNOWN for each voice.
    """
    taken = {item.name for item in known}
    letters = (name for name in map(name_of, count()) if name not in taken)
    sounds = [item.embedding for item in known if item.embedding is not None]
    found = matched(np.array(voices), np.array(sounds), least) if sounds and len(voices) else {}
    return [
        known[found[voice]].name if voice in found else next(letters)
        for voice in range(len(voices))
    ]


def matched(voices: FloatArray, known: FloatArray, least: Sequence[float]) -> dict[int, int]:
    """Return which known speaker each voice is, by number; no two voices are the same, best first.

    Args:
        voices: Of unit length, `[voices, size]`.
        known: The same of known speakers, `[known, size]`.
        least: Cosine of each voice below which it is nobody known, `[voices]`.
    """
    margins = voices @ known.T - np.array(least)[:, None]
    found: dict[int, int] = {}
    for place in np.argsort(-margins, axis=None, kind="stable"):
        voice, who = divmod(int(place), margins.shape[1])
        if margins[voice, who] < 0:
            break
        if voice not in found and who not in found.values():
            found[voice] = who
    return found


def name_of(number: int) -> str:
    """Return a label: A to Z, then AA, AB, …

    >>> name_of(0), name_of(25), name_of(26)
    ('A', 'Z', 'AA')
    """
    before, last = divmod(number, 26)
    return (name_of(before - 1) if before else "") + chr(ord("A") + last)
