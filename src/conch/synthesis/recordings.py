"""Recordings of one person, to which a voice is fitted: how they sound, and how high."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from conch.audio.recording import file_recording
from conch.bls.calls import Calls
from conch.component import SAMPLE_RATE, VAD_FRAME_SAMPLES, FloatArray, unit
from conch.component.pitch import median_pitch
from conch.families import likening
from conch.wire.errors import AudioError

VAD = "vad"
FEWEST, MOST = 3, 50
"""Recordings of a voice."""
MOST_S = 300.0
"""Longest recording, in seconds."""
LEAST_FILE_S, LEAST_S, ENOUGH_S = 1.5, 15.0, 60.0
"""Least seconds of speech of a recording and of all; with less than the last there is a warning."""
SPEECH = 0.5
"""Least probability of speech in a frame."""
PIECE = 24_000
"""Samples of a piece that is heard by itself."""
STRETCH = 20 * PIECE
"""Samples of one call, 30 s, whole frames of VAD and the most that the embedding takes."""
SAME = 0.4
"""Least cosine of how a recording and the others of the same person sound."""
TWO = 0.3
"""Cosine of two groups of pieces below which they are of two people; those of one are above 0.5."""
NARROW = 1e-5
"""Share of the power above 4.4 kHz below which a recording is of a telephone's band."""
LEAST_SHARE = 0.2
"""Least share of the pieces that is a second voice."""


@dataclass(frozen=True, slots=True)
class Speech:
    name: str
    waveform: FloatArray
    """Samples without pauses, at 16 kHz."""
    pieces: FloatArray
    """Embeddings of the pieces, unit vectors `[pieces, size]`."""
    pitch: float
    """Median in Hz; 0 is unknown."""
    warnings: tuple[str, ...]

    @property
    def seconds(self) -> float:
        return len(self.waveform) / SAMPLE_RATE

    @property
    def embedding(self) -> FloatArray:
        return unit(self.pieces.sum(axis=0))


@dataclass(frozen=True, slots=True)
class Person:
    target: FloatArray
    """Embedding of the person, by the recordings that are not held back."""
    held_back: FloatArray
    """Embedding by the recordings that are held back."""
    pitch: float
    warnings: tuple[str, ...]


async def person_of(files: Sequence[tuple[str, bytes]], calls: Calls) -> Person:
    """Return how the person sounds in the files, each with its name.

    Raise an AudioError that names a file without enough speech, with two voices, or with another
    voice than the rest.
    """
    if not FEWEST <= len(files) <= MOST:
        raise AudioError(f"a voice takes {FEWEST} to {MOST} recordings; sent: {len(files)}")
    # One after the other: each takes megabytes.
    heard = [await speech_of(name, data, calls) for name, data in files]
    seconds = sum(item.seconds for item in heard)
    if seconds < LEAST_S:
        raise AudioError(
            f"a voice takes {LEAST_S:g} s of speech in all, better {ENOUGH_S:g}; "
            f"sent: {seconds:.1f} s"
        )
    for number, item in enumerate(heard):
        others = _together([*heard[:number], *heard[number + 1 :]])
        if (cosine := float(item.embedding @ others)) < SAME:
            raise AudioError(
                f"{item.name} sounds like somebody else than the other recordings: cosine "
                f"{cosine:.2f}, of one person at least {SAME}"
            )
    warnings = [warning for item in heard for warning in item.warnings]
    if seconds < ENOUGH_S:
        warnings.append(f"{seconds:.0f} s of speech are few: {ENOUGH_S:g} make a better voice")
    pitches = [item.pitch for item in heard if item.pitch]
    return Person(
        _together([item for number, item in enumerate(heard) if number % 3 != 1]),
        _together(heard[1::3]),
        float(np.median(pitches)) if pitches else 0.0,
        tuple(warnings),
    )


async def speech_of(name: str, data: bytes, calls: Calls) -> Speech:
    """Return the speech of a file; raise an AudioError that names it if it has too little."""
    waveform, warnings = await asyncio.to_thread(read_recording, name, data, MOST_S)
    answers = [
        await calls(VAD, {"waveform": waveform[start : start + STRETCH]}, ("speech_probs",))
        for start in range(0, len(waveform), STRETCH)
    ]
    probs = np.concatenate([answer["speech_probs"].numpy().ravel() for answer in answers])
    is_speech = np.repeat(probs >= SPEECH, VAD_FRAME_SAMPLES)[: len(waveform)]
    speech = np.ascontiguousarray(waveform[: len(is_speech)][is_speech])
    seconds = len(speech) / SAMPLE_RATE
    if seconds < LEAST_FILE_S:
        raise AudioError(
            f"{name} has {seconds:.1f} s of speech; a recording takes at least {LEAST_FILE_S:g}"
        )
    pieces = await embeddings_of(speech, calls)
    if _has_two(pieces):
        raise AudioError(f"{name} has two voices: a recording takes one person alone")
    pitch = await asyncio.to_thread(median_pitch, speech[: 2 * STRETCH])
    if await asyncio.to_thread(_is_narrow, speech):
        warnings = (*warnings, "nothing is above 4 kHz, as in a telephone call: the voice is dull")
    return Speech(name, speech, pieces, pitch, tuple(f"{name}: {text}" for text in warnings))


async def embedding_of(waveform: FloatArray, calls: Calls) -> FloatArray:
    """Return how a waveform at 16 kHz sounds, a unit vector `[size]`."""
    return unit((await embeddings_of(waveform, calls)).sum(axis=0))


async def embeddings_of(waveform: FloatArray, calls: Calls) -> FloatArray:
    """Return how the pieces of a waveform at 16 kHz sound, unit vectors `[pieces, size]`."""
    embeddings = []
    for first in range(0, max(1, len(waveform) - PIECE), STRETCH):
        stretch = waveform[first : first + STRETCH]
        size = min(PIECE, len(stretch))
        starts = np.arange(0, len(stretch) - size + 1, PIECE // 2, dtype=np.int32)
        inputs = {"waveform": stretch, "starts": starts, "ends": (starts + size).astype(np.int32)}
        outputs = await calls(likening().embedding, inputs, ("embeddings",))
        embeddings.append(outputs["embeddings"].numpy())
    return unit(np.concatenate(embeddings))


def _together(heard: Sequence[Speech]) -> FloatArray:
    return unit(np.sum([item.embedding for item in heard], axis=0))


def _is_narrow(speech: FloatArray) -> bool:
    power = np.abs(np.fft.rfft(speech)) ** 2
    return bool(power[len(power) * 11 // 20 :].sum() < NARROW * power.sum())


def _has_two(pieces: FloatArray) -> bool:
    """Return whether pieces, cut in two by their main axis, sound like two people."""
    if len(pieces) < 6:
        return False
    centred = pieces - pieces.mean(axis=0)
    axis = np.linalg.svd(centred, full_matrices=False)[2][0]
    is_second = centred @ axis > 0
    if min(is_second.mean(), 1 - is_second.mean()) < LEAST_SHARE:
        return False
    first, second = unit(pieces[~is_second].sum(axis=0)), unit(pieces[is_second].sum(axis=0))
    return float(first @ second) < TWO


def read_recording(name: str, data: bytes, most_s: float) -> tuple[FloatArray, tuple[str, ...]]:
    """Return a file's waveform and warnings; the AudioError of another one begins with `name`."""
    try:
        recording = file_recording(data, most_s)
        (blocks,) = recording.channels.values()
        waveform = np.concatenate([*blocks], dtype=np.float32)
    except AudioError as error:
        raise AudioError(f"{name}: {error}") from None
    return waveform, recording.warnings
