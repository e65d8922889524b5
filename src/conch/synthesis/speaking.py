"""Speak a text: sentence by sentence, and each chunk by chunk."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

import numpy as np

from conch.bls.calls import Calls
from conch.bls.concurrency import PART
from conch.component import Array, FloatArray, bytes_array
from conch.families.family import Synthesizer
from conch.fitted_voices import StoredVoice
from conch.wire.sentences import halves, sentences
from conch.wire.synthesis import MAX_WARNINGS, SpokenSentence, SpokenWord, SynthesisOptions

SHARE_OF_LEAD = 4
"""How many times shorter a chunk is than the audio that is still to be played."""

MOST_TOKENS = 400
"""Most sounds of a sentence; a longer one is read in halves. An acoustic model takes longer for
each sound the more there are."""
MOST_OF_WORD = 1200
"""Most sounds of a word; a longer one is cut: an acoustic model has a limit."""
LONG_LEAD_S = 2.0
"""Seconds of earlier audio from which on the first sentence is as long as others."""


@dataclass(frozen=True, slots=True)
class VocoderChunk:
    """A stretch of frames that is spoken, inside one that the vocoder gets."""

    start: int
    end: int
    first: int
    """First frame that the vocoder gets."""
    last: int
    """Frame after the last that the vocoder gets."""


@dataclass(slots=True)
class Growth:
    """The length of the next chunk: it starts short, so that the first sound is early."""

    frames: int
    most: int
    factor: float

    @classmethod
    def of(cls, synthesizer: Synthesizer, lead_s: float = 0.0) -> "Growth":
        """Return the growth of a text before which `lead_s` seconds are still to be played."""
        most, rate = synthesizer.most_frames, synthesizer.sample_rate
        frames = lead_s / SHARE_OF_LEAD * rate / synthesizer.frame_samples
        first = min(most, max(synthesizer.first_frames, frames))
        return cls(round(first), most, synthesizer.growth)

    def chunks(self, frames: int, before: int, after: int) -> Iterator[VocoderChunk]:
        """Yield ever longer chunks, whose sound depends on the frames `before` and `after` each."""
        start = 0
        while start < frames:
            left = frames - start
            # A rest is not worth a call of its own.
            length = left if left <= self.frames * 3 // 2 else self.frames
            end = start + length
            yield VocoderChunk(start, end, max(0, start - before), min(frames, end + after))
            start, self.frames = end, min(self.most, round(self.frames * self.factor))


@dataclass(frozen=True, slots=True)
class Imitation:
    """How a voice differs from a mix of voices, to sound like a person."""

    pitch: float
    """Factor of its pitch."""
    timbre: FloatArray | None = None
    """Numbers of its timbre, for the acoustic model; None for those of the mix."""
    gain: float = 1.0
    """Factor of its samples."""

    @classmethod
    def of(cls, voice: StoredVoice) -> "Imitation":
        return cls(voice.pitch, np.frombuffer(voice.timbre, np.float32), voice.gain)

    @property
    def inputs(self) -> dict[str, Array]:
        pitch = {"pitch": np.array([self.pitch], np.float32)}
        return pitch if self.timbre is None else {**pitch, "timbre": self.timbre}


class Speaking:
    """Speaks one text; in memory are at most the sentence that is spoken, and the next one."""

    def __init__(
        self,
        text: str,
        options: SynthesisOptions,
        synthesizer: Synthesizer,
        calls: Calls,
        growth: Growth,
        due: float,
        imitation: Imitation | None = None,
    ) -> None:
        """`due` is when the first sound is wanted, on the monotonic clock."""
        self._more = imitation.inputs if imitation else {}
        self._gain = np.float32(imitation.gain if imitation else 1.0)
        self._text, self._options, self._by, self._calls = text, options, synthesizer, calls
        self._growth, self._began = growth, due
        first, longest = synthesizer.phrases
        if options.lead_ms >= 1000 * LONG_LEAD_S:
            first = longest
        self._left: Iterator[slice] = sentences(text, longest, first)
        self._frames = 0
        self._silent: list[str] = []
        self.is_running = True
        self.done = 0
        """Characters that are spoken, or have no sound."""

    @property
    def seconds(self) -> float:
        return self._frames * self._by.frame_samples / self._by.sample_rate

    @property
    def warnings(self) -> tuple[str, ...]:
        """Parts of the text that have no sound, a few of them."""
        return tuple(f"nothing is spoken of {text:.40}" for text in self._silent)

    async def pieces(self) -> AsyncGenerator[tuple[FloatArray, SpokenSentence | None], None]:
        """Yield the next samples and the sentence that begins with them, if one does.

        The next sentence is prepared meanwhile.
        """
        coming = asyncio.create_task(self._next(self._began))
        try:
            while (voiced := await coming) is not None:
                read, latents = voiced
                ends_s = self.seconds + read.end
                sentence: SpokenSentence | None = read.later(self.seconds)
                around = (self._by.frames_before, self._by.frames_after)
                for chunk in self._growth.chunks(len(latents), *around):
                    samples = await self._sound(latents, chunk)
                    if not self._frames:
                        # From here on it is played.
                        self._began = max(self._began, time.monotonic())
                    self._frames += chunk.end - chunk.start
                    if sentence is not None:
                        # Not before: the first sound would share the cores with it.
                        coming = asyncio.create_task(self._next(self._began + ends_s))
                    yield samples, sentence
                    sentence = None
            self.is_running = False
        finally:
            coming.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await coming

    async def _next(self, due: float) -> tuple[SpokenSentence, FloatArray] | None:
        """Return the next sentence that has a sound, to be spoken when `due`, and its latents.

        Its times are from its own start. None is the end.
        """
        PART.set(due)
        for span in self._left:
            text = self._text[span]
            read = await self._calls(
                self._by.text_frontend,
                {"text": bytes_array([text])},
                ("phonemes", "tokens", "spans"),
                {"voice": self._options.voice, "normalize": self._options.normalize},
            )
            tokens, spans = read["tokens"].numpy(), read["spans"].numpy()
            is_too_long = len(tokens) > MOST_OF_WORD
            cut = halves(self._text, span, cuts_words=is_too_long)
            if len(tokens) > MOST_TOKENS and len(cut) > 1:
                self._left = chain(cut, self._left)
                return await self._next(due)
            self.done = span.stop
            if not len(tokens):
                self._silent = [*self._silent, text][:MAX_WARNINGS]
                continue
            voiced = await self._calls(
                self._by.acoustic,
                {
                    "tokens": tokens,
                    "speed": np.array([self._options.speed], np.float32),
                    **self._more,
                },
                ("latents", "durations"),
                {"voice": self._options.voice, "seed": self._options.seed},
            )
            latents: FloatArray = voiced["latents"].numpy()
            if not len(latents):
                continue
            frame_s = self._by.frame_samples / self._by.sample_rate
            durations = voiced["durations"].numpy()
            words = word_times(text, spans, durations, frame_s) if self._options.timestamps else ()
            phonemes = read["phonemes"].numpy()[0].decode()
            end = round(len(latents) * frame_s, 4)
            return SpokenSentence(text, phonemes, 0.0, end, words), latents
        return None

    async def _sound(self, latents: FloatArray, chunk: VocoderChunk) -> FloatArray:
        PART.set(self._began + self.seconds)
        before, after = chunk.start - chunk.first, chunk.last - chunk.end
        context = np.array([before, after, self._frames - before], np.int32)
        outputs = await self._calls(
            self._by.vocoder,
            {"latents": latents[chunk.first : chunk.last], "context": context},
            ("waveform",),
            {"voice": self._options.voice, "seed": self._options.seed},
        )
        samples: FloatArray = outputs["waveform"].numpy().ravel()
        return samples * self._gain if self._more else samples


def word_times(text: str, spans: Array, durations: Array, frame_s: float) -> tuple[SpokenWord, ...]:
    """Return the words of a sentence with seconds from its begin.

    `spans` are integers [words, 4]: start and end in the text, first token and behind the last.
    `durations` are frames of each token, of `frame_s` seconds.
    """
    ends = np.concatenate([[0], np.cumsum(durations)]) * frame_s
    return tuple(
        SpokenWord(text[start:end], round(float(ends[first]), 4), round(float(ends[last]), 4))
        for start, end, first, last in np.asarray(spans, np.int64).tolist()
    )
