"""The states of a live stream between two steps of its audio: waiting for speech, or speaking.

The states are frozen: each step gives a new one. Nothing here calls a component.
"""

from dataclasses import dataclass, replace

import numpy as np

from conch.component import Array
from conch.component.waveform import SAMPLE_RATE, VAD_FRAME_SAMPLES
from conch.recognition.live.endpointing import SpeechProbs
from conch.wire.result import Word, text_of_words

NO_SAMPLES = np.zeros(0, np.float32)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of live audio, and its speech probabilities."""

    waveform: Array
    """FP32 [samples], 16 kHz."""
    speech: SpeechProbs

    def followed_by(self, other: "Step") -> "Step":
        """Return this step and the next one as one."""
        probs = np.concatenate([self.speech.probs, other.speech.probs])
        return Step(
            np.concatenate([self.waveform, other.waveform]), replace(other.speech, probs=probs)
        )


NO_STEP = Step(NO_SAMPLES, SpeechProbs(NO_SAMPLES, VAD_FRAME_SAMPLES))


@dataclass(frozen=True, slots=True)
class Utterance:
    """The utterance since the last endpoint."""

    start: int = 0
    """Start, in samples of the live stream."""
    words: tuple[Word, ...] = ()
    """Words of the first pass so far."""
    num_stable: int = 0
    """Number of words at the beginning that the first pass no longer changes."""
    score: float = 0.0
    """Score of the text."""
    steps: tuple[Step, ...] = ()
    """All of its audio: for Whisper's passes, and for a component that loses the stream."""
    log_probs: tuple[Array, ...] = ()
    """Log probabilities of the steps, FP32 [frames, units], for a second pass with ctc_rescore."""

    @property
    def stable(self) -> tuple[Word, ...]:
        """The words that the first pass no longer changes."""
        return self.words[: self.num_stable]

    @property
    def text(self) -> str:
        """The text of the first pass so far."""
        return text_of_words(self.words)

    def steps_after(self, sample: int) -> tuple[int, list[Step]]:
        """Return the steps that reach beyond a sample of the stream, and where the first begins."""
        start, left = self.start, list(self.steps)
        while left and start + len(left[0].waveform) <= sample:
            start += len(left.pop(0).waveform)
        return start, left

    def after_firm(self) -> tuple[tuple[Word, ...], "Utterance"]:
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
        return firm, Utterance(start, steps=tuple(left))


@dataclass(frozen=True, slots=True)
class Waiting:
    """State without an utterance: with a VAD, only the VAD is called."""

    called: float | None = None
    """Time of the last call of encoder and search, on the monotonic clock. None if they keep no
    state of the stream."""
    pre_roll: Step = NO_STEP
    """The step before, if only the VAD was called for it."""

    def after_silence(self, silent: Step) -> "Waiting":
        """Return the state after a step without speech."""
        # A copy: a view would keep the whole chunk.
        return replace(self, pre_roll=replace(silent, waveform=silent.waveform.copy()))

    def speaking(self, start: int, now: float) -> "Speaking":
        """Return the state at the start of an utterance.

        Args:
            start: Start of the utterance, in samples of the live stream.
            now: Time of the call of encoder and search, on the monotonic clock.
        """
        return Speaking(now, Utterance(start))


@dataclass(frozen=True, slots=True)
class Speaking:
    """State within an utterance: encoder and search are called for each step."""

    called: float
    """Time of the last call of encoder and search, on the monotonic clock."""
    utterance: Utterance

    def with_step(self, step: Step) -> "Speaking":
        """Return the state with a further step of audio."""
        steps = (*self.utterance.steps, step)
        return replace(self, utterance=replace(self.utterance, steps=steps))

    def with_log_probs(self, log_probs: Array) -> "Speaking":
        """Return the state with the log probabilities of a further step for the second pass."""
        kept = (*self.utterance.log_probs, log_probs)
        return replace(self, utterance=replace(self.utterance, log_probs=kept))

    def with_words(self, words: tuple[Word, ...], num_stable: int, score: float) -> "Speaking":
        """Return the state with the present words of the first pass."""
        utterance = replace(self.utterance, words=words, num_stable=num_stable, score=score)
        return replace(self, utterance=utterance)

    def after_utterance(self, *, ends: bool) -> Waiting:
        """Return the state after the utterance.

        Args:
            ends: Whether the stream ends too, so that encoder and search keep no state.
        """
        return Waiting(None if ends else self.called)


State = Waiting | Speaking
