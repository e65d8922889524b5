"""Find the end of a live utterance: by rules on silence and length, or by a check in its pauses."""

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from conch.audio.segmentation import Span, closing_threshold
from conch.bls.calls import Calls
from conch.component import SAMPLE_RATE
from conch.recognition.hooks import EndOfTurn
from conch.recognition.speech import SpeechProbs, SpeechSegment
from conch.wire.errors import public_error
from conch.wire.options import RecognitionOptions

logger = logging.getLogger(__name__)

Rule = Literal["silence", "no_speech", "length"]

LONG_PART = 0.6
"""Share of the longest utterance after which it ends at a short pause, not within a word."""
SHORT_PAUSE_MS = 96
"""Three frames of the VAD. Stops within a word are shorter; gaps between a CTC model's letters
may be longer."""

FINISHED_MS = 200
"""Silence that ends an utterance whose speaker has finished by other signs."""
SOON_S = 0.1
"""Longest wait for the check of a pause: twice what it takes on a CPU at rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointRules:
    """Rules of which any one ends an utterance, as in sherpa-onnx."""

    threshold: float
    """Smallest probability of speech."""
    silence_ms: float
    """Silence after speech, in milliseconds."""
    no_speech_ms: float
    """Silence before any speech, in milliseconds."""
    length_s: float
    """Length of the utterance in seconds. After LONG_PART of it, a short pause is enough."""


def endpoint_rules(options: RecognitionOptions) -> EndpointRules:
    """Return the endpoint rules of a request's options.

    The rule length always holds: the search keeps all frames of an utterance, and looks at all of
    them for each chunk.
    """
    waits = options.endpointing
    return EndpointRules(
        threshold=options.vad_threshold,
        silence_ms=options.endpoint_silence_ms if waits else math.inf,
        no_speech_ms=options.endpoint_no_speech_ms if waits else math.inf,
        length_s=options.max_utterance_s,
    )


@dataclass(frozen=True, slots=True)
class SpeechExtent:
    """Span of an utterance's speech, in samples of the live stream."""

    end: int = 0
    """End of the audio so far."""
    first: int | None = None
    """Start of the first frame of speech; None without speech."""
    after_last: int = 0
    """End of the last frame of speech; without speech, start of the utterance."""
    latest: int = 0
    """Start of the speech after the latest pause; without speech, start of the utterance."""


class Endpointer:
    """Finds the end of one utterance after the other.

    Speech begins at a frame whose probability reaches the threshold and goes on while frames stay
    above a lower one, as in `Segmenter`.
    """

    def __init__(self, rules: EndpointRules) -> None:
        self._rules = rules
        self._close_at = closing_threshold(rules.threshold)
        self._in_speech = False
        self._began = 0
        self.speech = SpeechExtent()
        self.pause_ms = 0.0
        """Silence after the audio so far that was not sent, in milliseconds."""
        self.finished_at: int | None = None
        """End of the speech after which the speaker has finished by other signs than silence."""

    def push(self, frames: SpeechProbs) -> Rule | None:
        """Add the next frames; return the rule that ends the utterance after them, or None.

        The rules apply after the last frame only, so that a pause between two frames of speech ends
        nothing.
        """
        end, first, after_last = self.speech.end, self.speech.first, self.speech.after_last
        latest = self.speech.latest
        for prob in frames.probs.tolist():
            opens = prob >= self._rules.threshold
            if opens and not self._in_speech:
                latest = end
            self._in_speech = opens or (self._in_speech and prob >= self._close_at)
            if self._in_speech:
                after_last = end + frames.frame_samples
                if first is None:
                    first = end
            end += frames.frame_samples
        self._in_speech &= not self.pause_ms
        self.speech = SpeechExtent(end, first, after_last, latest)
        quiet_ms = 1000 * (end - after_last) / SAMPLE_RATE
        if first is None and quiet_ms >= self._rules.no_speech_ms:
            return "no_speech"
        is_finished = self.finished_at == after_last
        silence_ms = min(self._rules.silence_ms, FINISHED_MS if is_finished else math.inf)
        if first is not None and quiet_ms + self.pause_ms >= silence_ms:
            return "silence"
        length_s = (end - self._began) / SAMPLE_RATE
        is_paused = first is not None and quiet_ms >= SHORT_PAUSE_MS
        if length_s >= self._rules.length_s * (LONG_PART if is_paused else 1):
            return "length"
        return None

    def restart(self) -> None:
        """Start the next utterance. It may start within speech."""
        self._began = self.speech.end
        self.speech = SpeechExtent(self._began, None, self._began, self._began)

    def skip(self, until: int) -> None:
        """Take the audio up to a sample of the stream for silence; its words are a segment."""
        end, first, after_last = self.speech.end, self.speech.first, self.speech.after_last
        if first is not None:
            first = max(first, until) if after_last > until else None
        self.speech = replace(self.speech, first=first, after_last=max(after_last, min(until, end)))


def speech_span(speech: SpeechExtent, utterance: Span, pad_ms: int) -> Span:
    """Return the speech of an utterance with padding, or all of the utterance if it has none."""
    if speech.first is None:
        return utterance
    pad = pad_ms * SAMPLE_RATE // 1000
    start = max(utterance.start, speech.first - pad)
    return Span(start, min(utterance.end, speech.after_last + pad))


def is_pause(speech: SpeechExtent, until: int) -> bool:
    """Return whether somebody has paused before a sample of the stream, and may have finished."""
    quiet_ms = 1000 * (until - speech.after_last) // SAMPLE_RATE
    return speech.first is not None and quiet_ms >= FINISHED_MS


class TurnEnd:
    """Asks once in each pause of a live stream's utterances whether the speaker has finished."""

    def __init__(self, ask: EndOfTurn, calls: Calls) -> None:
        self._ask, self._calls = ask, calls
        self._pause = -1
        """Start of the latest pause that was checked, in samples of the stream."""
        self._asking: asyncio.Task[float] | None = None

    def after_step(
        self, speech: SpeechExtent, utterance: Span, audio: Callable[[Span], SpeechSegment]
    ) -> None:
        """Ask if there is a pause at the end of the utterance so far, of which `audio` gives parts.

        The answer comes later: no step waits for it.
        """
        if self._pause == speech.after_last or not is_pause(speech, utterance.end):
            return
        self.cancel()
        self._pause = speech.after_last
        self._asking = asyncio.create_task(self._probability(audio(utterance)))

    def probability(self, speech: SpeechExtent) -> float:
        """Return that the speaker has finished with this speech; 0 while it is not known."""
        if self._asking is None or not self._asking.done() or self._pause != speech.after_last:
            return 0.0
        return self._asking.result()

    async def settled(self, most_s: float | None = None) -> None:
        """Wait for the check that has begun, at most so many seconds."""
        if self._asking:
            await asyncio.wait((self._asking,), timeout=most_s)

    def cancel(self) -> None:
        if self._asking:
            self._asking.cancel()

    async def _probability(self, speech: SpeechSegment) -> float:
        try:
            return await self._ask(self._calls, speech.waveform)
        except Exception as failure:  # silence alone decides then
            logger.warning("an end of turn is not found: %s", public_error(failure))
            return 0.0
