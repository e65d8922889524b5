"""Recordings with references, and how far a text is from its reference."""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import jiwer
import numpy as np
import soundfile
from whisper_normalizer.english import EnglishTextNormalizer

_normalized = EnglishTextNormalizer()
TIGER = (
    "Tiger Tiger, burning bright in the forest of the night. What immortal hand or eye dare frame "
    "thy fearful symmetry."
)
"""What the fixture `tiger` of tests/families says."""


@dataclass(frozen=True)
class Recording:
    path: Path
    text: str

    def waveform(self) -> np.ndarray:
        samples, rate = soundfile.read(self.path, dtype="float32")
        assert rate == 16_000
        return samples


def recordings_of(folder: Path) -> list[Recording]:
    """Return the utterances of a folder's manifest with their references."""
    with (folder / "manifest.tsv").open() as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    return [Recording(folder / row["path"], row["text"]) for row in rows]


def in_turn(recordings: Iterable[Recording], pause_s: float) -> np.ndarray:
    """Return recordings one after the other, with silence after each."""
    pause = np.zeros(round(16_000 * pause_s), np.float32)
    return np.concatenate([part for item in recordings for part in (item.waveform(), pause)])


def lost_passages(reference: str, hypothesis: str, least: int = 3) -> list[str]:
    """Return the runs of words of the reference that the text lacks."""
    found = jiwer.process_words(_normalized(reference), _normalized(hypothesis))
    (words,), (chunks,) = found.references, found.alignments
    return [
        " ".join(words[chunk.ref_start_idx : chunk.ref_end_idx])
        for chunk in chunks
        if chunk.type == "delete" and chunk.ref_end_idx - chunk.ref_start_idx >= least
    ]


def wer(reference: str, hypothesis: str) -> float:
    """Return the word error rate after the Whisper English normaliser, as a fraction."""
    return jiwer.wer(_normalized(reference), _normalized(hypothesis))
