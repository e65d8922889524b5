"""The states of a live stream between two steps of its audio: waiting for speech, or speaking.

The states are frozen: each step gives a new one. Nothing here calls a component.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from conch.audio.segmentation import Span, frames_between, speech_likeness
from conch.component import SAMPLE_RATE, VAD_FRAME_SAMPLES, Array
from conch.recognition.speech import Decoded, Frames, SpeechProbs, SpeechSegment
from conch.wire.result import Word, text_of_words

NO_SAMPLES = np.zeros(0, np.float32)


@dataclass(frozen=True, slots=True)
class LiveStep:
    """A step of live audio, and its speech probabilities."""

    waveform: Array
    """FP32 [samples], 16 kHz."""
    speech: SpeechProbs

    def followed_by(self, other: "LiveStep") -> "LiveStep":
        probs = np.concatenate([self.speech.probs, other.speech.probs])
        return LiveStep(
            np.concatenate([self.waveform, other.waveform]), replace(other.speech, probs=probs)
        )


NO_STEP = LiveStep(NO_SAMPLES, SpeechProbs(NO_SAMPLES, VAD_FRAME_SAMPLES))


@dataclass(frozen=True, slots=True)
class LiveUtterance:
    """The utterance since the last endpoint."""

    start: int = 0
    """Start, in samples of the live stream."""
    words: tuple[Word, ...] = ()
    num_stable: int = 0
    """Number of words at the beginning that the first pass no longer changes."""
    score: float = 0.0
    ends_turn: bool = False
    """Whether the first pass says that the speaker has finished."""
    steps: tuple[LiveStep, ...] = ()
    """All of its audio: for passes over it, and for a component that loses the stream."""
    encoded: Mapping[str, Frames] = field(default_factory=dict)
    """Outputs that the first pass keeps for a second pass, by the encoder."""

    @property
    def stable(self) -> tuple[Word, ...]:
        return self.words[: self.num_stable]

    @property
    def text(self) -> str:
        return text_of_words(self.words)

    @property
    def seconds(self) -> float:
        return sum(len(step.waveform) for step in self.steps) / SAMPLE_RATE

    def with_step(self, step: LiveStep) -> "LiveUtterance":
        return replace(self, steps=(*self.steps, step))

    def with_text(self, decoded: Decoded) -> "LiveUtterance":
        """Return the utterance with the present text of the first pass.

        Words that were stable stay so while the text begins with them: a search that has begun
        again knows fewer of them to be.
        """
        best = decoded.nbest[0]
        num_stable = len(decoded.stable.split())
        if num_stable < self.num_stable and best.text.startswith(text_of_words(self.stable)):
            num_stable = self.num_stable
        words = decoded.words[best.text]
        return replace(
            self,
            words=words,
            num_stable=num_stable,
            score=best.score,
            ends_turn=decoded.ends_turn,
        )

    def steps_after(self, sample: int) -> tuple[int, list[LiveStep]]:
        """Return the steps that reach beyond a sample of the stream, and where the first begins."""
        start, left = self.start, list(self.steps)
        while left and start + len(left[0].waveform) <= sample:
            start += len(left.pop(0).waveform)
        return start, left

    def spoken(self, span: Span, *, has_vad: bool) -> SpeechSegment:
        """Return the audio of a part, in samples of the stream; none if the utterance keeps none.

        With `has_vad`, the speech probabilities are those of the VAD.
        """
        seconds = span.start / SAMPLE_RATE
        begins, steps = self.steps_after(span.start)
        if not steps:
            return SpeechSegment(seconds, NO_SAMPLES, NO_SAMPLES)
        start, end = span.start - begins, span.end - begins
        waveform = np.concatenate([step.waveform for step in steps])[start:end]
        if has_vad:
            speech_probs = np.concatenate([step.speech.probs for step in steps])
            speech_probs = frames_between(speech_probs, start, end)
        else:
            speech_probs = speech_likeness(waveform)
        length = sum(len(step.waveform) for step in self.steps)
        shares = (span.start - self.start) / length, (span.end - self.start) / length
        encoded = {name: frames.part(*shares) for name, frames in self.encoded.items()}
        return SpeechSegment(seconds, waveform, speech_probs, encoded)

    def after_firm(self) -> tuple[tuple[Word, ...], "LiveUtterance"]:
        """Return the words that no longer change, and the utterance that is left behind them.

        It begins with a whole step, so that the encoder's chunks are those of the stream. The step
        is silent as far as the words reach.
        """
        firm = self.stable
        if not firm:
            return firm, self
        until = round(firm[-1].end * SAMPLE_RATE)
        start, left = self.steps_after(until)
        if left:
            waveform = left[0].waveform.copy()
            waveform[: max(0, until - start)] = 0
            left[0] = replace(left[0], waveform=waveform)
        return firm, LiveUtterance(start, steps=tuple(left))


@dataclass(frozen=True, slots=True)
class Waiting:
    """State without an utterance: with a VAD, only the VAD is called."""

    pre_roll: LiveStep = NO_STEP
    """The step before, if only the VAD was called for it."""

    def after_silence(self, silent: LiveStep) -> "Waiting":
        # A copy: a view would keep the whole chunk.
        return Waiting(replace(silent, waveform=silent.waveform.copy()))


State = Waiting | LiveUtterance
"""Within an utterance, the first pass is called for each step."""
