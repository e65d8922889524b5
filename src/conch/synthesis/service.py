"""Synthesis as a service of a BLS model: text in, audio out, by a voice or like a recording."""

import asyncio
import hashlib
import os
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from time import monotonic
from typing import Any

import numpy as np
import soxr

from conch import fitted_voices
from conch.audio.encoding import Encoder
from conch.bls.call import BEFORE_CALLS, Components, Deadline
from conch.bls.calls import Calls
from conch.bls.concurrency import RecordingTurns
from conch.bls.config import BlsConfig
from conch.bls.metrics import REQUESTS, Metric
from conch.bls.runtime import Runtime
from conch.bls.service import AccessRecord, Answer, Message, RequestHeader
from conch.component import SAMPLE_RATE, FloatArray
from conch.families import likening, replace_voices, voices, voices_that_stand_for
from conch.families.family import Synthesizer
from conch.fitted_voices import own_voices
from conch.synthesis.recordings import embedding_of, read_recording
from conch.synthesis.speaking import Growth, Imitation, Speaking
from conch.wire.errors import (
    ComponentError,
    OptionError,
    OverloadedError,
    TextError,
)
from conch.wire.known_speakers import KnownSpeaker
from conch.wire.synthesis import (
    DEFAULT_VOICE,
    Spoken,
    SpokenSentence,
    SynthesisOptions,
    reference_of,
    synthesizer_of,
)

MODE = "synthesis"
SPOKEN_SECONDS = Metric("conch_spoken_seconds_total", "Seconds of audio made of texts")
FIRST_AUDIO_SECONDS = Metric(
    "conch_first_audio_seconds_total", "Time from a text to the first of its audio"
)
CHARACTERS_A_SECOND = 15.0
"""Rough speed of speech, by which waiting texts are ordered."""

MOST_S = 20.0
"""Longest recording, in seconds."""
LEAST_HEARD_S, HEARD_S = 0.5, 8.0
"""Seconds of what is spoken by which its likeness to a recording is measured."""
KEPT = 256
"""Recordings whose voices are kept, the latest requested ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisConfig(BlsConfig):
    max_wait_s: float = 300.0
    """Longest wait of a text without a deadline, in seconds, if all before it were made first. A
    text that would wait longer is refused at once."""
    max_encoder_calls: int = 2
    """Calls in flight at once to each component; others wait, and what will be heard first goes
    first. As many as vocoder has instances: what waits there cannot be overtaken."""
    max_calls_in_flight: int = 16
    max_passes_in_flight: int = 1
    max_text: int = 100_000
    """Longest text of a streamed answer, in characters."""
    references: bool = False
    """Whether requests may have the option `reference`: whoever runs the server has the consent of
    those who are heard. `conch serve --voices-from-recordings` sets it too."""
    max_whole_text: int = 10_000
    """Longest text of an answer in one piece, in characters: its audio takes 6 KB for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisRequest(RequestHeader):
    """A request with its text, whose options are not checked yet."""

    text: str


@dataclass(frozen=True, slots=True)
class Style:
    """A voice that is none of the declared ones."""

    voice: str
    """Value of the components' parameter `voice`."""
    imitation: Imitation
    reference: FloatArray | None = None
    """How the recording of a request sounds; None for a fitted voice."""


class Synthesis:
    def __init__(self, config: SynthesisConfig, runtime: Runtime) -> None:
        self._config, self._runtime = config, runtime
        self.gauges = runtime.gauges
        allowed = config.references or fitted_voices.VARIABLE in os.environ
        self._references = References(is_allowed=allowed)

    def parse(self, message: Message) -> SynthesisRequest:
        tensor = message.read_inputs().get("TEXT")
        if tensor is None or tensor.size != 1:
            sent = "none" if tensor is None else str(tensor.size)
            raise TextError(f"TEXT takes one text; sent: {sent}")
        most = self._config.max_text if message.is_decoupled else self._config.max_whole_text
        return SynthesisRequest(text=checked_text(tensor.item(), most), **message.header_fields())

    async def run(
        self, request: SynthesisRequest, components: Components, record: AccessRecord
    ) -> AsyncGenerator[Answer, None]:
        """Yield one answer; if the request is decoupled, one for each chunk and a last one."""
        record.mode, record.fields["characters"] = MODE, len(request.text)
        runtime, size = self._runtime, len(request.text.encode())
        with runtime.metrics.answering(REQUESTS, MODE), runtime.admission.arrived(size):
            if fitted_voices.VARIABLE in os.environ:  # others never change
                replace_voices(own_voices())
            options = SynthesisOptions.parse(request.parameters)
            deadline = Deadline(options.deadline_ms, started=request.arrived)
            turns = RecordingTurns(runtime.limits)
            calls = runtime.calls(components, MODE, deadline, turns)
            # Of all texts, what will be heard first goes first: see `Speaking`.
            turns.begin((0.0, 0), lambda: True)
            async with calls.limited():
                style = await self._references.style_of(options, calls) or _fitted(options.voice)
                options, synthesizer = await _spoken_by(style, options, calls)
                await calls.need(synthesizer.components)
                expected_s = len(request.text) / CHARACTERS_A_SECOND / options.speed
                left_s = deadline.remaining_s(BEFORE_CALLS)
                async with runtime.admission.begun(expected_s, left_s) as share:

                    def served(characters: int) -> None:
                        part = characters / len(request.text)
                        runtime.admission.served(share, expected_s * part)

                    answers = self._answers(
                        request, options, synthesizer, style, calls, record, served
                    )
                    async with aclosing(answers):
                        async for answer in answers:
                            yield answer

    async def _answers(
        self,
        request: SynthesisRequest,
        options: SynthesisOptions,
        synthesizer: Synthesizer,
        style: Style | None,
        calls: Calls,
        record: AccessRecord,
        served: Callable[[int], None],
    ) -> AsyncGenerator[Answer, None]:
        rate = options.sample_rate or synthesizer.sample_rate
        lead_s = options.lead_ms / 1000
        growth = Growth.of(synthesizer, lead_s if request.is_decoupled else inf)
        due = request.arrived + lead_s
        imitation = style.imitation if style else None
        part_options = replace(options, voice=style.voice) if style else options
        speaking = Speaking(request.text, part_options, synthesizer, calls, growth, due, imitation)
        likeness = Likeness(style.reference if style else None, synthesizer.sample_rate)
        is_fitted = synthesizer.is_fitted
        encoder = Encoder(options.format, rate, synthesizer.sample_rate, is_fitted=is_fitted)
        similarity: float | None = None
        begun: list[SpokenSentence] = []
        made: list[bytes] = []
        has_answered = False

        async def encoded(job: Callable[[], bytes]) -> bytes:
            return await asyncio.to_thread(job) if encoder.has_codec else job()

        def taken() -> Answer:
            nonlocal has_answered
            if not has_answered:
                calls.count(FIRST_AUDIO_SECONDS, monotonic() - request.arrived)
            has_answered = True
            seconds, voice = round(speaking.seconds, 4), options.voice
            spoken = Spoken(seconds, rate, voice, tuple(begun), calls.path, is_fitted=is_fitted)
            if not request.is_decoupled or not speaking.is_running:
                spoken = replace(spoken, stages=calls.stages, warnings=speaking.warnings)
                spoken = replace(spoken, similarity=similarity)
            audio = b"".join(made)
            begun.clear()
            made.clear()
            return _tensors(spoken, options.format, audio, request.outputs)

        async with aclosing(speaking.pieces()) as pieces:
            async for samples, sentence in pieces:
                begun += [sentence] if sentence else []
                likeness.add(samples)
                made.append(await encoded(partial(encoder.write, samples)))
                served(speaking.done)
                if request.is_decoupled and any(made):
                    yield taken()
        if not speaking.seconds:
            raise TextError(
                f"the text has no word that the voice {options.voice} can speak; "
                f"sent: {request.text:.40}"
            )
        made.append(await encoded(encoder.finish))
        similarity = await likeness.measured(calls)
        calls.count(SPOKEN_SECONDS, speaking.seconds)
        record.audio_s = speaking.seconds
        record.called(calls.stages)
        yield taken()

    async def close(self, timeout_s: float) -> None:
        """Do nothing: no state outlives a request."""


async def _spoken_by(
    style: Style | None, options: SynthesisOptions, calls: Calls
) -> tuple[SynthesisOptions, Synthesizer]:
    """Return options with the voice that a server speaks them with, and what speaks it."""
    if style is not None:
        is_named = style.reference is None
        voice = options.voice if is_named else style.voice
        return replace(options, voice=voice), voices()[voice] if is_named else likening()
    synthesizer = synthesizer_of(options.voice)
    is_other = options.voice in voices_that_stand_for()
    if is_other and not await calls.is_loaded(synthesizer.acoustic):
        return replace(options, voice=DEFAULT_VOICE), synthesizer_of(DEFAULT_VOICE)
    return options, synthesizer


def checked_text(sent: Any, most: int) -> str:
    try:
        text = sent.decode() if isinstance(sent, bytes) else str(sent)
    except UnicodeDecodeError as error:
        raise TextError(f"TEXT takes UTF-8: {error}") from None
    if not text.strip():
        raise TextError("TEXT takes a text with words; the one that was sent is empty")
    if len(text) > most:
        raise TextError(
            f"TEXT takes at most {most} characters (parameter max_text or max_whole_text of the "
            f"model); sent: {len(text)}"
        )
    return text


def _tensors(spoken: Spoken, format: str, audio: bytes, wanted: tuple[str, ...]) -> Answer:
    tensors = {
        "SAMPLE_RATE": np.array([[spoken.sample_rate]], np.int32),
        "RESULT": np.array([[spoken.to_json().encode()]], np.object_),
    }
    if audio and format == "pcm_f32":
        tensors["WAVEFORM"] = np.frombuffer(audio, np.float32)[np.newaxis]
    elif audio:
        tensors["AUDIO"] = np.array([[audio]], np.object_)
    return {name: tensor for name, tensor in tensors.items() if name in wanted}


class References:
    def __init__(self, *, is_allowed: bool) -> None:
        self._is_allowed = is_allowed
        self._styles: OrderedDict[bytes, Style] = OrderedDict()
        """Styles by the hash of the recording, whose name says nothing of the voice."""

    async def style_of(self, options: SynthesisOptions, calls: Calls) -> Style | None:
        """Return the style of a request with a reference; None for one without."""
        if (speaker := reference_of(options.reference)) is None:
            return None
        if not self._is_allowed:
            raise OptionError(
                "option 'reference' is not taken by this server; conch serve "
                "--voices-from-recordings takes it, of those whose consent you have"
            )
        key = hashlib.sha256(options.reference.encode()).digest()
        if key not in self._styles:
            self._styles[key] = await self._fetched_style(speaker, calls)
        self._styles.move_to_end(key)
        while len(self._styles) > KEPT:
            self._styles.popitem(last=False)
        return self._styles[key]

    async def _fetched_style(self, speaker: KnownSpeaker, calls: Calls) -> Style:
        component = likening().voice_style
        await calls.need((component, likening().embedding))
        if speaker.embedding is None:
            read = partial(read_recording, "option 'reference'", speaker.audio, MOST_S)
            inputs = {"waveform": (await asyncio.to_thread(read))[0]}
        else:
            inputs = {"embedding": speaker.embedding}
        outputs = await calls(component, inputs, ("style", "pitch", "embedding"))
        style, pitch, embedding = (item.numpy() for item in outputs.values())
        return Style(style.item().decode(), Imitation(pitch.item()), embedding.ravel())


def _fitted(voice: str) -> Style | None:
    """Return a voice that is fitted to recordings; None for any other."""
    stored = fitted_voices.stored(voice) if voices().get(voice, likening()).is_fitted else None
    return Style(stored.shown.mix, Imitation.of(stored)) if stored else None


class Likeness:
    """Says how much what is spoken sounds like a recording."""

    def __init__(self, reference: FloatArray | None, rate: int) -> None:
        """`reference` is how the recording sounds; None if nothing has to be said."""
        self._reference, self._rate = reference, rate
        self._left = 0 if reference is None else round(HEARD_S * rate)
        self._heard: list[FloatArray] = []

    def add(self, samples: FloatArray) -> None:
        if self._left > 0:
            self._heard.append(samples[: self._left])
            self._left -= len(samples)

    async def measured(self, calls: Calls) -> float | None:
        """Return the cosine; None without a reference, or for less than LEAST_HEARD_S seconds."""
        samples = np.concatenate(self._heard) if self._heard else np.zeros(0, np.float32)
        if self._reference is None or len(samples) < LEAST_HEARD_S * self._rate:
            return None
        waveform = await asyncio.to_thread(soxr.resample, samples, self._rate, SAMPLE_RATE)
        try:
            embedding = await embedding_of(waveform, calls)
        except (ComponentError, OverloadedError):  # the audio is made all the same
            return None
        return round(float(embedding @ self._reference), 3)
