"""Where a live stream stands between two steps of its audio: nobody speaks, or somebody does.

The states are frozen, and no component is called here: a step makes a new state of the old one.
"""

from dataclasses import dataclass, replace

import numpy as np

from conch.component import Array
from conch.component.waveform import VAD_FRAME_SAMPLES
from conch.orchestrator.endpointing import SpeechProbs

NO_SAMPLES = np.zeros(0, np.float32)


@dataclass(frozen=True, slots=True)
class Step:
    """A stretch of a stream's audio, and where in it somebody speaks."""

    waveform: Array
    """FP32 [samples], 16 kHz."""
    speech: SpeechProbs

    def followed_by(self, other: "Step") -> "Step":
        """Return both as one."""
        probs = np.concatenate([self.speech.probs, other.speech.probs])
        return Step(
            np.concatenate([self.waveform, other.waveform]), replace(other.speech, probs=probs)
        )


NO_STEP = Step(NO_SAMPLES, SpeechProbs(NO_SAMPLES, VAD_FRAME_SAMPLES))


@dataclass(frozen=True, slots=True)
class Utterance:
    """What has been said since the last endpoint."""

    start: int = 0
    """Sample of the stream."""
    text: str = ""
    """So far …"""
    stable: str = ""
    """… and the beginning of it that will not change any more."""
    score: float = 0.0
    """Of the text."""
    steps: tuple[Step, ...] = ()
    """Its audio, for a second pass; empty without one."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """No utterance is under way: with a VAD, the VAD alone is called."""

    called: float | None = None
    """When encoder and search were last called, on the monotonic clock; None where they keep
    nothing of the stream."""
    pre_roll: Step = NO_STEP
    """The step before, if the VAD alone has heard it."""

    def passed(self, silent: Step) -> "Waiting":
        """Return the state behind a step in which nobody speaks."""
        # A copy: a view would keep the whole chunk.
        return replace(self, pre_roll=replace(silent, waveform=silent.waveform.copy()))

    def begun(self, start: int, now: float) -> "Speaking":
        """Return the state in which an utterance has begun.

        Args:
            start: sample of the stream.
            now: when encoder and search are called, on the monotonic clock.
        """
        return Speaking(now, Utterance(start))


@dataclass(frozen=True, slots=True)
class Speaking:
    """An utterance is under way: encoder and search are called for each step."""

    called: float
    """As of `Waiting`."""
    utterance: Utterance

    def heard(self, step: Step) -> "Speaking":
        """Return the state that keeps a step for the second pass."""
        steps = (*self.utterance.steps, step)
        return replace(self, utterance=replace(self.utterance, steps=steps))

    def found(self, text: str, stable: str, score: float) -> "Speaking":
        """Return the state with what the search now holds of the utterance."""
        return replace(
            self, utterance=replace(self.utterance, text=text, stable=stable, score=score)
        )

    def over(self, *, ends: bool) -> Waiting:
        """Return the state behind the utterance.

        Args:
            ends: whether the stream ends with it, so that encoder and search keep nothing.
        """
        return Waiting(None if ends else self.called)


State = Waiting | Speaking
