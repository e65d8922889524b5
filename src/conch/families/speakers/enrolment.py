"""Hear the audio of known speakers, before that of the recording."""

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from conch.audio.recording import file_recording
from conch.bls.calls import Calls, together
from conch.component import SAMPLE_RATE, FloatArray
from conch.families.speakers import EMBEDDING
from conch.families.speakers.assignment import SegmentAnalysis, turns_of
from conch.families.speakers.labels import embedded, hear, numbers_of, voices_of
from conch.recognition.offline.recording import speech_segments
from conch.wire.errors import AudioError
from conch.wire.known_speakers import (
    LEAST_S,
    OTHER_S,
    KnownSpeaker,
    KnownSpeakers,
    known_speakers_of,
    option_of,
    wrong_entry,
)
from conch.wire.options import RecognitionOptions

MOST_S = 30.0
"""Seconds of audio that a voice is known by at most."""
AT_ONCE = 4
"""Voices of a request that are decoded at once."""
TWINS = 0.95
"""Cosine of two known speakers who must be one: other people are below 0.8, also on the phone."""
_OPTIONS = {"decoder": "none", "speakers": "auto"}


def enrolment_s(options: RecognitionOptions) -> float:
    """Return the most seconds of known speakers' audio."""
    return MOST_S * sum(bool(item.audio) for item in known_speakers_of(options.known_speakers))


async def enrolled(options: RecognitionOptions, calls: Calls) -> RecognitionOptions:
    """Return options with embeddings of all known speakers, or raise an OptionError."""
    known = known_speakers_of(options.known_speakers)
    if not known:
        return options
    silence, turns = np.zeros(SAMPLE_RATE // 2, np.float32), asyncio.Semaphore(AT_ONCE)
    size = (await embedded(calls, silence, [(0, len(silence))], is_line=False)).shape[-1]

    async def embedding(number: int, item: KnownSpeaker) -> FloatArray:
        async with turns:
            return await _embedding(number, item, calls)

    sounds = await together(itertools.starmap(embedding, enumerate(known, 1)))
    _check(known, sounds, size)
    entries = zip(known, sounds, strict=True)
    text = option_of([{"name": item.name, "embedding": sound} for item, sound in entries])
    return replace(options, known_speakers=KnownSpeakers(text))


def _check(known: Sequence[KnownSpeaker], sounds: Sequence[FloatArray], size: int) -> None:
    for number, (item, sound) in enumerate(zip(known, sounds, strict=True), 1):
        if len(sound) != size:
            why = f"its embedding has {len(sound)} numbers; {EMBEDDING.name} gives {size}"
            raise wrong_entry(number, item.name, why)
        for other, before in zip(known, sounds[: number - 1], strict=False):
            if sound @ before > TWINS:
                why = f"it is the same voice as {other.name!r}; send it once"
                raise wrong_entry(number, item.name, why)


async def _embedding(number: int, item: KnownSpeaker, calls: Calls) -> FloatArray:
    """Return the embedding of a known speaker, of unit length `[size]`."""
    if item.embedding is not None:
        return item.embedding
    options = RecognitionOptions.parse(_OPTIONS)
    analyses: list[SegmentAnalysis] = []
    try:
        recording = await asyncio.to_thread(file_recording, item.audio, 2 * MOST_S)
        (blocks,) = recording.channels.values()
        async for speech in speech_segments(blocks, options, calls):
            if analysis := await hear(speech, options, calls):
                analyses.append(analysis)
    except AudioError as error:
        raise wrong_entry(number, item.name, f"its audio: {error}") from None
    if recording.duration > MOST_S:
        why = f"its audio is {recording.duration:.1f} s long; it takes at most {MOST_S:g} s"
        raise wrong_entry(number, item.name, why)
    samples = sum(end - start for part in analyses for start, end in part.spoken)
    if samples < LEAST_S * SAMPLE_RATE:
        why = (
            f"its audio has {samples / SAMPLE_RATE:.1f} s of speech; it takes at least {LEAST_S} s"
        )
        raise wrong_entry(number, item.name, why)
    voices = await asyncio.to_thread(voices_of, analyses, *numbers_of(options))
    seconds = [0.0] * len(voices)
    for turn in (turn for part in analyses for turn in turns_of(part, voices)):
        seconds[turn.voice] += turn.end - turn.start
    main = int(np.argmax(seconds))
    if any(length >= OTHER_S for voice, length in enumerate(seconds) if voice != main):
        shares = " and ".join(f"{length:.1f}" for length in sorted(seconds, reverse=True))
        raise wrong_entry(number, item.name, f"its audio has several voices, of {shares} s")
    return np.asarray(voices[main])
