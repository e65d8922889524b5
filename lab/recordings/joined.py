"""Long recordings made of utterances, with pauses between them.

A manifest of short utterances says nothing about what goes wrong in recordings: words lost where
a segment begins or ends, or a decoder that leaves out a stretch. Joined utterances have exact
references and known times, and any manifest will do.

The utterances keep the order of the manifest, in which a speaker's are side by side as in real
recordings. There is one pause between two utterances, none before the first or after the last. A
recording ends with the utterance that brings it to the length asked for. What is left at the end
is a recording too if it has half of that length, and is dropped otherwise.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from conch.component import SAMPLE_RATE
from conch.scoring.manifest import ManifestEntry
from conch.wire.errors import BenchError
from lab.alignment import Part
from lab.recordings.sounds import FAINT_DBFS, faded, music, pink_noise
from lab.telephone import TELEPHONE_SAMPLE_RATE, amplitude, rms, telephone_call


class TooLittleSpeechError(BenchError):
    """The utterances are shorter than half a recording."""


Between = Literal["silence", "noise", "music"]
BETWEEN: tuple[Between, ...] = get_args(Between)
BETWEEN_DB = -10.0
"""Level of noise and music in the pauses, in dB relative to the recording's speech."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    seconds: float
    """Least seconds of a recording; see the module for the last one."""
    pause_s: tuple[float, float] = (0.2, 0.9)
    """Shortest and longest pause; lengths are drawn evenly from that range."""
    seed: int = 1
    """Seed of the pauses and of all noise: the same seed gives the same samples."""
    between: Between = "silence"
    """Content of the pauses. Silence is noise at `FAINT_DBFS`: no microphone gives zeros."""
    is_telephone: bool = False

    @property
    def sample_rate(self) -> int:
        """Hz, of the recordings."""
        return TELEPHONE_SAMPLE_RATE if self.is_telephone else SAMPLE_RATE


@dataclass(frozen=True, slots=True)
class Group:
    number: int
    """Index of the recording, from 0; part of the seed of its noise."""
    indices: tuple[int, ...]
    pauses_s: tuple[float, ...]
    """Pauses between the utterances: one fewer."""


@dataclass(frozen=True, slots=True)
class JoinedRecording:
    """A long recording whose words have known times."""

    waveform: NDArray[np.float32]
    """Mono, `[samples]`."""
    sample_rate: int
    parts: tuple[Part, ...]
    source: str
    """Source of the utterances; `mixed` if they have several."""

    @property
    def text(self) -> str:
        return " ".join(part.text for part in self.parts if part.text)

    @property
    def duration_s(self) -> float:
        return len(self.waveform) / self.sample_rate


def groups(durations_s: Sequence[float], joining: Joining) -> list[Group]:
    """Return which utterances make up each recording, and the pauses between them."""
    random = np.random.default_rng(joining.seed)
    made: list[Group] = []
    indices: list[int] = []
    pauses_s: list[float] = []
    length_s = 0.0
    for index, duration_s in enumerate(durations_s):
        # Draw a pause for each utterance, so that the pauses are the same at all lengths.
        pause_s = float(random.uniform(*joining.pause_s))
        if indices:
            pauses_s.append(pause_s)
            length_s += pause_s
        indices.append(index)
        length_s += duration_s
        if length_s >= joining.seconds:
            made.append(Group(len(made), tuple(indices), tuple(pauses_s)))
            indices, pauses_s, length_s = [], [], 0.0
    if indices and length_s >= joining.seconds / 2:
        made.append(Group(len(made), tuple(indices), tuple(pauses_s)))
    if not made:
        raise TooLittleSpeechError(
            f"the chosen utterances make {length_s:.0f} s of recordings, less than half of one of "
            f"{joining.seconds:g} s; join fewer seconds, or choose more utterances"
        )
    return made


def join(
    utterances: Sequence[ManifestEntry],
    waveforms: Sequence[NDArray[np.float32]],
    group: Group,
    joining: Joining,
) -> JoinedRecording:
    pauses = [round(pause_s * SAMPLE_RATE) for pause_s in group.pauses_s]
    starts = np.cumsum([0, *map(sum, zip(map(len, waveforms[:-1]), pauses, strict=True))])
    spans = [
        (int(start), int(start) + len(waveform))
        for start, waveform in zip(starts, waveforms, strict=True)
    ]
    waveform = np.zeros(spans[-1][1], np.float32)
    for (start, end), utterance_waveform in zip(spans, waveforms, strict=True):
        waveform[start:end] = utterance_waveform
    random = np.random.default_rng([joining.seed, group.number])
    level = rms(np.concatenate(waveforms))
    for (_, start), (end, _) in pairwise(spans):
        if end > start:
            waveform[start:end] = _pause(joining.between, start, end, level, random)
    if joining.is_telephone:
        waveform = telephone_call(waveform, spans, random)
    return JoinedRecording(
        waveform=waveform,
        sample_rate=joining.sample_rate,
        parts=tuple(
            Part(utterance.path, utterance.text, start / SAMPLE_RATE, end / SAMPLE_RATE)
            for utterance, (start, end) in zip(utterances, spans, strict=True)
        ),
        source=common((utterance.source for utterance in utterances), "mixed"),
    )


def _pause(
    between: Between, start: int, end: int, level: float, random: np.random.Generator
) -> NDArray[np.float32]:
    """Return the samples of a pause; `level` is the RMS of the speech around it."""
    if between == "silence":
        noise = random.standard_normal(end - start, np.float32)
        return noise * np.float32(amplitude(FAINT_DBFS))
    is_music = between == "music"
    sound = music(start, end, SAMPLE_RATE) if is_music else pink_noise(end - start, random)
    return faded(sound, SAMPLE_RATE) * np.float32(level * amplitude(BETWEEN_DB))


def common(values: Iterable[str], others: str) -> str:
    """Return the only one of some values, or else `others`."""
    first, *rest = set(values)
    return others if rest else first
