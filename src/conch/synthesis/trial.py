"""Trials of a voice that is being fitted: it speaks sentences, and is compared with a person."""

import asyncio
import string
from math import inf

import numpy as np
import soxr
from rapidfuzz.distance import Levenshtein

from conch.bls.calls import Calls
from conch.component import SAMPLE_RATE, FloatArray, bytes_array
from conch.families import likening
from conch.fitted_voices import StoredVoice
from conch.synthesis.recordings import embedding_of
from conch.synthesis.speaking import Growth, Imitation, Speaking
from conch.wire.entry_points import ENTRY_POINTS
from conch.wire.errors import ComponentError, OverloadedError
from conch.wire.result import Transcript
from conch.wire.synthesis import SynthesisOptions

SENTENCES = (
    "A large size in stockings is hard to sell.",
    "The boy was there when the sun rose.",
    "A rod is used to catch pink salmon.",
)
"""Harvard sentences (IEEE 1969), with which no voice is fitted."""
CHUNK_FRAMES = 20
"""Frames of a call of the vocoder: a listener's chunk may wait for it."""


async def verdict_on(
    voice: StoredVoice, held_back: FloatArray, calls: Calls
) -> tuple[float, float | None, float]:
    """Return similarity, word error rate in percent and loudness of a voice; raise as `Calls` does.

    It speaks sentences that it is not fitted with. `held_back` is how other recordings of the
    person sound, and the similarity the mean cosine of both. There is no rate without a recogniser.
    """
    similarities, wrong, total, spoken = [], 0, 0, []
    for sentence in SENTENCES:
        waveform = await _spoken(sentence, voice, calls)
        embedding = await embedding_of(waveform, calls)
        similarities.append(float(embedding @ held_back))
        spoken.append(waveform)
        if (text := await text_of(waveform, calls)) is not None:
            words = words_of(sentence)
            wrong += Levenshtein.distance(words, words_of(text))
            total += len(words)
    wer = round(100 * wrong / total, 1) if total else None
    loudness = float(np.sqrt(np.mean(np.square(np.concatenate(spoken)))))
    return float(np.mean(similarities)), wer, loudness


async def _spoken(text: str, voice: StoredVoice, calls: Calls) -> FloatArray:
    by, options = likening(), SynthesisOptions(voice=voice.shown.mix)
    growth = Growth(CHUNK_FRAMES, CHUNK_FRAMES, 1.0)
    speaking = Speaking(text, options, by, calls, growth, inf, Imitation.of(voice))
    samples = np.concatenate([samples async for samples, _ in speaking.pieces()])
    return await asyncio.to_thread(soxr.resample, samples, by.sample_rate, SAMPLE_RATE)


async def latents_of(text: str, voice: StoredVoice, calls: Calls) -> FloatArray:
    """Return what a voice does over time to speak a sentence, `[frames, channels]`."""
    by, parameters = likening(), {"voice": voice.shown.mix}
    read = await calls(by.text_frontend, {"text": bytes_array([text])}, ("tokens",), parameters)
    inputs = {
        "tokens": read["tokens"].numpy().ravel(),
        "speed": np.ones(1, np.float32),
        "pitch": np.array([voice.pitch], np.float32),
    }
    made = await calls(by.acoustic, inputs, ("latents",), parameters)
    latents: FloatArray = made["latents"].numpy()
    return latents


async def text_of(waveform: FloatArray, calls: Calls) -> str | None:
    """Return what is said in a waveform at 16 kHz; None on a server that does not recognise it."""
    speech = ENTRY_POINTS[0]
    try:
        if not await calls.is_loaded(speech):
            return None
        inputs = {"WAV": waveform, "SAMPLE_RATE": np.array([SAMPLE_RATE], np.int32)}
        outputs = await calls(speech, inputs, ("RESULT",))
    except (ComponentError, OverloadedError):
        return None
    return Transcript.from_json(outputs["RESULT"].numpy().item()).text


def words_of(text: str) -> list[str]:
    """Return the words of a sentence as they are compared."""
    return text.lower().translate(str.maketrans("", "", string.punctuation)).split()
