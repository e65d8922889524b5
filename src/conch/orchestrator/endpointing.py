"""When an utterance of a stream is over: rules on silence and length, pure and incremental."""

from dataclasses import dataclass
from typing import Literal

from conch.component import Array
from conch.component.waveform import SAMPLE_RATE
from conch.orchestrator.segmentation import Span, closing_threshold

Rule = Literal["silence", "no_speech", "length"]

LONG_PART = 0.6
"""Of the longest utterance: from here on one ends at a short pause, rather than within a word."""
SHORT_PAUSE_MS = 96
"""Three frames of the VAD, by which stops within a word are shorter; gaps between the CTC model's
letters may be longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointRules:
    """Any one of them ends an utterance; the rules of sherpa-onnx."""

    threshold: float
    """Speech probability from which on a frame is speech."""
    silence_ms: float
    """Silence after speech."""
    no_speech_ms: float
    """Silence in which nobody has spoken yet."""
    length_s: float
    """Of the whole utterance; from LONG_PART of it on a short pause is enough."""


@dataclass(frozen=True, slots=True)
class SpeechProbs:
    """Where somebody speaks, as the VAD says or, of a stream without it, the CTC model."""

    probs: Array
    """FP32 `[frames]`: the probability of speech."""
    frame_samples: int
    """Samples of a frame."""


@dataclass(frozen=True, slots=True)
class Speech:
    """What an utterance has had so far, in samples of the stream."""

    heard: int = 0
    """Where it has got to."""
    first: int | None = None
    """Where the first frame of speech begins, None as long as nobody has spoken."""
    after_last: int = 0
    """Where the last one ends; without any, where the utterance begins."""


class Endpointer:
    """Follows one utterance after the other.

    Speech begins at a frame whose probability reaches the threshold and goes on while frames stay
    above a lower one, as in `Segmenter`.
    """

    def __init__(self, rules: EndpointRules) -> None:
        """Start the first utterance."""
        self._rules = rules
        self._close_at = closing_threshold(rules.threshold)
        self._in_speech = False
        self._began = 0
        self.speech = Speech()

    def push(self, frames: SpeechProbs) -> Rule | None:
        """Take the next frames; return the rule that ends the utterance after them.

        Only what holds at the last frame counts: somebody who has gone on speaking meanwhile has
        not ended.
        """
        heard, first, after_last = self.speech.heard, self.speech.first, self.speech.after_last
        for prob in frames.probs.tolist():
            opens = prob >= self._rules.threshold
            self._in_speech = opens or (self._in_speech and prob >= self._close_at)
            if self._in_speech:
                after_last = heard + frames.frame_samples
                if first is None:
                    first = heard
            heard += frames.frame_samples
        self.speech = Speech(heard, first, after_last)
        quiet_ms = _milliseconds(heard - after_last)
        if first is None and quiet_ms >= self._rules.no_speech_ms:
            return "no_speech"
        if first is not None and quiet_ms >= self._rules.silence_ms:
            return "silence"
        length_s = (heard - self._began) / SAMPLE_RATE
        is_paused = first is not None and quiet_ms >= SHORT_PAUSE_MS
        if length_s >= self._rules.length_s * (LONG_PART if is_paused else 1):
            return "length"
        return None

    def restart(self) -> None:
        """Start the next utterance, in speech if somebody speaks."""
        self._began = self.speech.heard
        self.speech = Speech(self._began, None, self._began)


def speech_span(speech: Speech, utterance: Span, pad_ms: int) -> Span:
    """Return where in an utterance somebody speaks, padded; all of it if nobody was heard."""
    if speech.first is None:
        return utterance
    pad = pad_ms * SAMPLE_RATE // 1000
    start = max(utterance.start, speech.first - pad)
    return Span(start, min(utterance.end, speech.after_last + pad))


def _milliseconds(samples: int) -> float:
    return samples * 1000 / SAMPLE_RATE
