"""Recordings whose parts have known texts and times."""

from dataclasses import dataclass
from pathlib import Path

from conch.scoring.manifest import ManifestEntry


@dataclass(frozen=True, slots=True)
class Part:
    path: Path
    """Path of the part's own file."""
    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class JoinedUtterance(ManifestEntry):
    """A recording made of joined utterances; `text` is theirs."""

    parts: tuple[Part, ...] = ()


def parts_of(utterance: ManifestEntry, duration_s: float) -> tuple[Part, ...]:
    """Return the parts of a joined recording; any other one is a single part."""
    if isinstance(utterance, JoinedUtterance):
        return utterance.parts
    return (Part(utterance.path, utterance.text, 0.0, duration_s),)
