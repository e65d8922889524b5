"""Recordings whose parts are known: what is said from when to when."""

from dataclasses import dataclass
from pathlib import Path

from conch.bench.manifest import Utterance


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a recording whose text and times are known."""

    path: Path
    """Of the file that it was taken from."""
    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class JoinedUtterance(Utterance):
    """A recording that is joined of utterances; `text` is theirs."""

    parts: tuple[Part, ...] = ()
    """What it is made of, in order."""


def parts_of(utterance: Utterance, duration_s: float) -> tuple[Part, ...]:
    """Return the parts of a joined recording, of any other one that lasts all of it."""
    if isinstance(utterance, JoinedUtterance):
        return utterance.parts
    return (Part(utterance.path, utterance.text, 0.0, duration_s),)
