"""Turns with hesitations, made of recordings whose texts have punctuation.

A reader's own pauses are lengthened with noise of the recording's own spectrum and level. Clips of
LJ Speech that follow each other become one turn up to the end of a sentence, some of them two
sentences. Every other clip is a turn. Everything is drawn from a seed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from conch.audio.segmentation import closing_threshold
from conch.component import SAMPLE_RATE, VAD_FRAME_SAMPLES
from conch.wire.errors import BenchError
from conch.wire.turns import closed
from lab.vad import speech_probs
from lab.waveforms import duration_s, rows_of, waveform_of

SPEECH = 0.5
"""Probability of the VAD at which speech begins, the default of live streams."""
LEAST_PAUSE_S = 0.1
"""Shortest silence that counts as a pause of the reader."""
LEAST_QUIET_S = 0.2
"""Shortest pause of a turn in which a rule is asked."""
HESITATION_S, SPREAD, RANGE_S = 0.6, 0.45, (0.3, 1.5)
"""Median, log-normal spread and limits of a pause within a sentence."""
BETWEEN_S = 0.7
"""Median of a pause between two sentences of a turn."""
HESITATES = 0.5
"""Share of a clip's own pauses that are lengthened. Those at the ends of clips all are."""
GOES_ON = 0.5
"""Share of the sentences of LJ Speech that make one turn with the next one, if both fit."""
MOST_CLIPS_S, LONGEST_S = 12.0, 15.0
"""Of clips that are longer the first ones are left out, so that the sentence begins in its middle.
A turn that is longer with its pauses is left out: it would end by its length, whatever the rule."""
TAIL_S = 4.0
"""Noise behind a turn."""
STEP_S = 0.64
"""The noise before a turn is 0.3 s and a random part of this, so that it begins anywhere in a step
of the server."""

Position = Literal["inside", "between", "end"]
_ENDS = re.compile(r"[.?!][\"')\]]*$")
_INNER_END = re.compile(r"[.?!][\"')\]]*\s")


@dataclass(frozen=True, slots=True)
class Clip:
    path: Path
    text: str
    source: str

    @property
    def ends_sentence(self) -> bool:
        return _ENDS.search(self.text) is not None


@dataclass(frozen=True, slots=True)
class Pause:
    """Silence that the VAD finds after speech of a turn, in samples."""

    start: int
    end: int
    position: Position
    """Within a sentence, between two sentences, or after the last one."""


@dataclass(frozen=True, slots=True)
class MadeTurn:
    name: str
    source: str
    waveform: NDArray[np.float32]
    """16 kHz."""
    pauses: tuple[Pause, ...]
    """Those of at least LEAST_QUIET_S, in order of time; the last one is the end."""


def made_turns(manifest: Path, sources: Sequence[str], most: int, seed: int) -> Iterator[MadeTurn]:
    """Yield at most `most` turns of each source, the same ones for a seed."""
    clips = read_clips(manifest)
    for source in sources:
        if source not in clips:
            raise BenchError(f"{manifest} has no recordings of source {source}")
        groups = enumerate(_groups(clips[source], np.random.default_rng(seed)))
        turns = (_made(group, np.random.default_rng([seed, number])) for number, group in groups)
        yield from islice((turn for turn in turns if turn is not None), most)


def read_clips(manifest: Path) -> Mapping[str, Sequence[Clip]]:
    """Return the clips of a manifest by source, in order of their names."""
    by_source: dict[str, list[Clip]] = {}
    for row in rows_of(manifest, ("path", "text", "source")):
        clip = Clip(manifest.parent / row["path"].strip(), row["text"].strip(), row["source"])
        by_source.setdefault(clip.source, []).append(clip)
    return {
        source: sorted(clips, key=lambda clip: clip.path.name)
        for source, clips in by_source.items()
    }


def _groups(clips: Sequence[Clip], random: np.random.Generator) -> Iterator[list[Clip]]:
    """Yield the clips of each turn. One with a sentence's end inside is left out: where is it?"""
    before: list[Clip] = []
    for sentence in _sentences(clips):
        both = [*before, *sentence]
        is_one = bool(before) and _follows(before[-1], sentence[0]) and random.random() < GOES_ON
        if is_one and _seconds(both) <= MOST_CLIPS_S:
            yield both
            before = []
            continue
        if before:
            yield before
        before = sentence
    if before:
        yield before


def _sentences(clips: Sequence[Clip]) -> Iterator[list[Clip]]:
    """Yield the clips of each sentence, or of its end if it is too long."""
    group: list[Clip] = []
    for clip in clips:
        group = [*group, clip] if group and _follows(group[-1], clip) else [clip]
        if clip.ends_sentence:
            while _seconds(group) > MOST_CLIPS_S:
                group = group[1:]
            if group and not any(_INNER_END.search(item.text) for item in group):
                yield group
            group = []


def _seconds(clips: Sequence[Clip]) -> float:
    return sum(duration_s(clip.path) for clip in clips)


def _follows(clip: Clip, other: Clip) -> bool:
    """Return whether two clips of LJ Speech were read one after the other."""
    (book, number), (other_book, other_number) = (
        item.path.stem.rpartition("-")[::2] for item in (clip, other)
    )
    is_reading = clip.source == "ljspeech"
    return is_reading and book == other_book and int(other_number) == int(number) + 1


def _made(group: Sequence[Clip], random: np.random.Generator) -> MadeTurn | None:
    """Return the turn of some clips; None if it is too long, or without speech."""
    pieces: list[NDArray[np.float32]] = []
    marks: list[tuple[int, Position]] = []
    length = 0

    def add(piece: NDArray[np.float32]) -> None:
        nonlocal length
        pieces.append(piece)
        length += len(piece)

    room = np.zeros(0, np.float32)
    for index, clip in enumerate(group):
        waveform = waveform_of(clip.path)
        spans = spoken_spans(waveform, LEAST_PAUSE_S)
        if not spans:
            return None
        room = room_noise(waveform, spans, random)
        if not index:
            add(room[: round((0.3 + random.uniform(0, STEP_S)) * SAMPLE_RATE)])
        elif group[index - 1].ends_sentence:
            marks.append((length, "between"))
            add(_silence(room, BETWEEN_S, random))
        else:
            marks.append((length, "inside"))
            add(_silence(room, HESITATION_S, random))
        done = max(0, spans[0][0] - VAD_FRAME_SAMPLES)
        for (_, end), (start, _) in pairwise(spans):
            middle = (end + start) // 2
            add(waveform[done:middle])
            if random.random() < HESITATES:
                add(_silence(room, HESITATION_S, random))
            done = middle
        add(waveform[done : spans[-1][1] + VAD_FRAME_SAMPLES])
    until = length
    add(np.resize(room, round(TAIL_S * SAMPLE_RATE)))
    if until > LONGEST_S * SAMPLE_RATE:
        return None
    waveform = np.concatenate(pieces)
    spans = spoken_spans(waveform, LEAST_QUIET_S)
    if not spans:
        return None
    pauses = [
        Pause(end, start, _position(marks, end, start)) for (_, end), (start, _) in pairwise(spans)
    ]
    pauses.append(Pause(spans[-1][1], len(waveform), "end"))
    return MadeTurn(group[0].path.stem, group[0].source, waveform, tuple(pauses))


def _position(marks: Sequence[tuple[int, Position]], start: int, end: int) -> Position:
    """Return where a pause lies: at the ends of clips near it, or else inside."""
    near = VAD_FRAME_SAMPLES * 3
    return next((position for at, position in marks if start - near <= at <= end + near), "inside")


def _silence(
    room: NDArray[np.float32], median_s: float, random: np.random.Generator
) -> NDArray[np.float32]:
    drawn_s = float(np.clip(median_s * np.exp(SPREAD * random.standard_normal()), *RANGE_S))
    return np.resize(np.roll(room, -int(random.integers(len(room)))), round(drawn_s * SAMPLE_RATE))


def room_noise(
    waveform: NDArray[np.float32], spans: Sequence[tuple[int, int]], random: np.random.Generator
) -> NDArray[np.float32]:
    """Return TAIL_S of noise with the mean spectrum of a recording's quietest frames."""
    size = VAD_FRAME_SAMPLES
    frames = np.lib.stride_tricks.sliding_window_view(waveform, size)[:: size // 2]
    is_quiet = np.ones(len(frames), bool)
    for start, end in spans:
        is_quiet[max(0, start // (size // 2) - 2) : end // (size // 2) + 1] = False
    power = np.square(frames, dtype=np.float64).mean(axis=1)
    least = np.percentile(power[is_quiet] if is_quiet.any() else power, 50 if is_quiet.any() else 5)
    chosen = frames[power <= least] * np.hanning(size)
    spectrum = np.abs(np.fft.rfft(chosen, axis=1)) ** 2
    gain = np.sqrt(spectrum.mean(axis=0) / np.square(np.hanning(size)).sum())
    white = random.standard_normal(round(TAIL_S * SAMPLE_RATE))
    bins = np.linspace(0, size // 2, len(white) // 2 + 1)
    shaped = np.fft.rfft(white) * np.interp(bins, np.arange(size // 2 + 1), gain)
    return np.fft.irfft(shaped, len(white)).astype(np.float32)


def spoken_spans(waveform: NDArray[np.float32], least_pause_s: float) -> list[tuple[int, int]]:
    """Return first and last sample of each stretch of speech, as a live stream hears it."""
    frames, in_speech = list[tuple[float, float]](), False
    for index, prob in enumerate(speech_probs(waveform).tolist()):
        in_speech = prob >= SPEECH or (in_speech and prob >= closing_threshold(SPEECH))
        if in_speech:
            frames.append((index * VAD_FRAME_SAMPLES, (index + 1) * VAD_FRAME_SAMPLES))
    return [(int(start), int(end)) for start, end in closed(frames, least_pause_s * SAMPLE_RATE)]
