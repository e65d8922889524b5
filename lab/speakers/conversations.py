"""Conversations of several speakers, made of the utterances of a manifest.

Turns follow each other with a gap that may be negative: then both speak. Utterances lose their
silent edges. The reference says who speaks from the first sound of an utterance to its last one,
without the pauses that a turn does not have: those of PAUSE_S or more that a VAD finds in the
utterance alone, before it is mixed with others. Everything is drawn from a seed.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import soxr
from numpy.typing import NDArray

from conch.component import SAMPLE_RATE, VAD_FRAME_SAMPLES
from conch.wire.errors import BenchError
from conch.wire.result import Turn
from conch.wire.turns import PAUSE_S, closed
from lab.recordings.sounds import pink_noise
from lab.telephone import TELEPHONE_SAMPLE_RATE, amplitude, band_pass, rms
from lab.vad import speech_probs
from lab.waveforms import coded, rows_of, waveform_of

Condition = Literal["clean", "noise", "telephone"]
CONDITIONS: tuple[Condition, ...] = get_args(Condition)
SNR_DB = 15.0
"""Of speech to pink noise, in condition noise."""
LINE_SNR_DB = 30.0
"""Of speech to the noise of a telephone line."""
GAP_S = (-1.5, 0.8)
"""Range of the gaps between turns."""
SILENCE_S, SHARED_S = (0.1, 1.0), (0.2, 1.0)
"""The same where a share of the turns begins before the one before ends: silences, and overlaps."""
UTTERANCE_S = (1.0, 9.0)
"""Lengths of the utterances that are taken, in seconds."""
LEVEL_DBFS, LEVELS_DB = -26.0, 3.0
"""Level of speech, and how far that of a speaker may be from it."""
QUIET_DB, FLOOR_DB = 35.0, 10.0
"""What is this much below the loud parts of an utterance is silence, and what is less than this
above its quietest parts."""
SPEECH = 0.5
"""Probability of the VAD from which on an utterance is speech."""
_FRAME = 160


@dataclass(frozen=True, slots=True)
class Source:
    path: Path
    speaker: str
    duration_s: float


@dataclass(frozen=True, slots=True)
class Conversation:
    condition: Condition
    waveform: NDArray[np.float32]
    """Mono, `[samples]`."""
    sample_rate: int
    turns: tuple[Turn, ...]
    """Stretches of speech, each by one speaker, in order of time; they may overlap."""
    utterances: tuple[Turn, ...]
    """With their short pauses."""

    @property
    def duration_s(self) -> float:
        return len(self.waveform) / self.sample_rate

    @property
    def speakers(self) -> int:
        return len({turn.speaker for turn in self.turns})


def read_sources(manifest: Path, split: str) -> list[Source]:
    """Return the utterances of a split that have a speaker."""
    required = ("path", "speaker", "duration")
    sources = [
        Source(manifest.parent / row["path"], row["speaker"], float(row["duration"]))
        for row in rows_of(manifest, required)
        if row.get("split") == split and row["speaker"].strip().isdigit()
    ]
    if not sources:
        raise BenchError(f"{manifest} has no utterances of split {split} with numbered speakers")
    return sources


def conversation(
    sources: Sequence[Source],
    speakers: int,
    seconds: float,
    condition: Condition,
    seed: Sequence[int],
    overlaps: float | None = None,
) -> Conversation:
    """Return a conversation of at least `seconds` among speakers that the seed chooses.

    `overlaps` is the share of the turns that begin before the one before ends; None draws all gaps
    from GAP_S.
    """
    random = np.random.default_rng(seed)
    by_speaker = _fitting(sources)
    if len(by_speaker) < speakers:
        raise BenchError(f"{speakers} speakers are asked for, and there are {len(by_speaker)}")
    chosen = [str(item) for item in random.choice(sorted(by_speaker), speakers, replace=False)]
    left = {who: list(random.permutation(len(by_speaker[who]))) for who in chosen}
    levels = {who: LEVEL_DBFS + random.uniform(-LEVELS_DB, LEVELS_DB) for who in chosen}
    pieces: list[tuple[int, NDArray[np.float32]]] = []
    turns: list[Turn] = []
    said: list[Turn] = []
    end, last = SAMPLE_RATE // 2, ""
    # Everybody speaks once before chance decides.
    order = list(random.permutation(chosen))
    while end < seconds * SAMPLE_RATE or order:
        others = [item for item in chosen if item != last]
        who = str(order.pop() if order else random.choice(others))
        if not left[who]:
            left[who] = list(random.permutation(len(by_speaker[who])))
        source = by_speaker[who][left[who].pop()]
        waveform = _levelled(waveform_of(source.path), levels[who])
        first, behind = loud_span(waveform)
        spoken = speech_spans(waveform, (first, behind))
        waveform = waveform[first:behind]
        gap_s = _gap_s(random, overlaps) if last else 0.0
        start = max(0, end + round(gap_s * SAMPLE_RATE))
        shift = start - first
        pieces.append((start, waveform))
        turns += [
            Turn(who, (at + shift) / SAMPLE_RATE, (to + shift) / SAMPLE_RATE) for at, to in spoken
        ]
        said.append(Turn(who, start / SAMPLE_RATE, (start + len(waveform)) / SAMPLE_RATE))
        # A long overlap may end before the turn before it.
        end, last = max(end, start + len(waveform)), who
    mixed = np.zeros(end + SAMPLE_RATE // 2, np.float32)
    for start, waveform in pieces:
        mixed[start : start + len(waveform)] += waveform
    level = rms(np.concatenate([waveform for _, waveform in pieces]))
    recorded, rate = _through(mixed, level, condition, random)
    ordered = sorted(turns, key=lambda turn: turn.start)
    return Conversation(condition, recorded, rate, tuple(ordered), tuple(said))


def _gap_s(random: np.random.Generator, overlaps: float | None) -> float:
    if overlaps is None:
        return random.uniform(*GAP_S)
    return -random.uniform(*SHARED_S) if random.random() < overlaps else random.uniform(*SILENCE_S)


def spoken_through(
    waveform: NDArray[np.float32], condition: Condition, random: np.random.Generator
) -> tuple[NDArray[np.float32], int]:
    """Return speech of one person as it is recorded, and its rate in Hz."""
    levelled = _levelled(waveform, LEVEL_DBFS)
    return _through(levelled, rms(levelled), condition, random)


def loud_span(waveform: NDArray[np.float32]) -> tuple[int, int]:
    """Return first and last sample of an utterance without its silent edges."""
    frames = waveform[: len(waveform) // _FRAME * _FRAME].reshape(-1, _FRAME)
    energy = 10 * np.log10(np.square(frames, dtype=np.float64).mean(axis=1) + 1e-12)
    quietest, loudest = np.percentile(energy, (5, 95))
    (loud,) = np.nonzero(energy > max(loudest - QUIET_DB, quietest + FLOOR_DB))
    return int(loud[0]) * _FRAME, int(loud[-1] + 1) * _FRAME


def speech_spans(waveform: NDArray[np.float32], edges: tuple[int, int]) -> list[tuple[int, int]]:
    """Return first and last sample of each stretch of speech in a clean utterance with edges."""
    frames = np.flatnonzero(speech_probs(waveform) >= SPEECH).tolist()
    spoken = [(frame * VAD_FRAME_SAMPLES, (frame + 1) * VAD_FRAME_SAMPLES) for frame in frames]
    first, behind = edges
    within = [(max(first, at), min(behind, to)) for at, to in spoken if at < behind and to > first]
    spans = closed([(first, first), *within, (behind, behind)], round(PAUSE_S * SAMPLE_RATE))
    return [(at, to) for at, to in spans if to > at]


def _fitting(sources: Sequence[Source]) -> Mapping[str, list[Source]]:
    by_speaker: dict[str, list[Source]] = defaultdict(list)
    for source in sources:
        if UTTERANCE_S[0] <= source.duration_s <= UTTERANCE_S[1]:
            by_speaker[source.speaker].append(source)
    return by_speaker


def _levelled(waveform: NDArray[np.float32], dbfs: float) -> NDArray[np.float32]:
    return waveform * np.float32(amplitude(dbfs) / max(rms(waveform), 1e-6))


def _through(
    waveform: NDArray[np.float32], level: float, condition: Condition, random: np.random.Generator
) -> tuple[NDArray[np.float32], int]:
    """Return a conversation as it is recorded, and its rate in Hz; `level` is that of speech."""
    if condition == "noise":
        noise = pink_noise(len(waveform), random) * np.float32(level / amplitude(SNR_DB))
        return waveform + noise, SAMPLE_RATE
    if condition == "clean":
        faint = random.standard_normal(len(waveform), np.float32) * np.float32(amplitude(-70))
        return waveform + faint, SAMPLE_RATE
    line = band_pass(soxr.resample(waveform, SAMPLE_RATE, TELEPHONE_SAMPLE_RATE))
    noise = band_pass(random.standard_normal(len(line), np.float32))
    line += noise * np.float32(level / rms(noise) / amplitude(LINE_SNR_DB))
    return coded(line.clip(-1, 1), TELEPHONE_SAMPLE_RATE, "ULAW"), TELEPHONE_SAMPLE_RATE
