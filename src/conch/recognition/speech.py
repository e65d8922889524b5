"""A stretch of speech to recognise, and what a decoder has made of it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from conch.audio.segmentation import frames_between
from conch.bls.call import TensorHandle
from conch.component import SAMPLE_RATE, Array
from conch.wire.result import Hypothesis, Word

WORD_COLUMNS = ("words", "word_starts", "word_ends", "word_confidences")
"""Output tensors of a decoder that has words."""


class Frames(Protocol):
    """The output of an encoder that a live first pass keeps of an utterance."""

    def part(self, start: float, end: float) -> "Frames":
        """Return the output for a part; `start` and `end` are shares of the audio."""


def known_text(text: str) -> Callable[[], Awaitable[str]]:
    """Return a function that returns a known text."""

    async def said() -> str:
        return text

    return said


no_text = known_text("")
"""The text before the first segment."""


@dataclass(frozen=True, slots=True)
class SpeechProbs:
    """Speech probabilities of the VAD or, without it, of the first pass."""

    probs: Array
    """FP32 `[frames]`."""
    frame_samples: int


@dataclass(frozen=True, slots=True)
class SpeechSegment:
    start: float
    """Start in the audio, in seconds."""
    waveform: Array
    """FP32 [samples], 16 kHz."""
    speech_probs: Array
    """Speech probabilities, FP32 [frames] of 32 ms each."""
    encoded: Mapping[str, Frames] = field(default_factory=dict)
    """What a live first pass has encoded already, by the encoder that need not be called for it."""
    said_before: Callable[[], Awaitable[str]] = no_text
    """Returns the text before the segment, as soon as it is known."""
    draft: str = ""
    """Text that a live stream has found in it; it changes none, but a greedy search needs fewer
    steps."""

    @property
    def duration(self) -> float:
        return len(self.waveform) / SAMPLE_RATE

    @property
    def end(self) -> float:
        return self.start + self.duration

    def part(self, start: float, end: float) -> "SpeechSegment":
        """Return the part between two times, in seconds from the segment's start.

        A later part does not know what was said before it.
        """
        samples = round(start * SAMPLE_RATE), round(end * SAMPLE_RATE)
        return SpeechSegment(
            self.start + start,
            self.waveform[slice(*samples)],
            frames_between(self.speech_probs, *samples),
            {
                name: frames.part(start / self.duration, end / self.duration)
                for name, frames in self.encoded.items()
            },
            said_before=no_text if start else self.said_before,
        )


@dataclass(frozen=True, slots=True)
class Decoded:
    nbest: Sequence[Hypothesis]
    """Hypotheses, best first. No two have the same text."""
    words: Mapping[str, tuple[Word, ...]]
    """Words by text, of the texts whose words are known."""
    stable: str = ""
    """Beginning of the text that further audio cannot change, for an utterance that goes on."""
    ends_turn: bool = False
    """Whether the decoder says that the speaker has finished, for such an utterance."""
    language: str = ""
    """Code of the language of the speech; empty if the decoder does not know it."""
    language_probability: float | None = None
    """Probability of `language`; None if it was not detected."""
    emotion: str = ""
    """Emotion, as in `Segment`; empty if the decoder does not know it."""
    event: str = ""
    """Event, as in `Segment`; empty if the decoder does not know it."""
    lattice: str = ""
    """Kaldi lattice; empty without the option `lattice`."""


NOTHING_DECODED = Decoded([Hypothesis("", 0.0, 0.0)], {"": ()})
"""The result without a recogniser."""


def hypotheses_of(outputs: Mapping[str, TensorHandle]) -> list[Hypothesis]:
    """Return the hypotheses in a decoder's outputs `hypotheses` and `scores`, best first."""
    texts = [text.decode() for text in outputs["hypotheses"].numpy()]
    scores = [float(score) for score in outputs["scores"].numpy()]
    return [Hypothesis(*pair, am_score=pair[1]) for pair in zip(texts, scores, strict=True)]


def words_of(outputs: Mapping[str, TensorHandle], start: float) -> tuple[Word, ...]:
    """Return the words in a decoder's WORD_COLUMNS; `start` is the segment's, in seconds."""
    columns = (
        [word.decode() for word in outputs["words"].numpy()],
        np.round(start + outputs["word_starts"].numpy().astype(float), 3).tolist(),
        np.round(start + outputs["word_ends"].numpy().astype(float), 3).tolist(),
        np.round(outputs["word_confidences"].numpy().astype(float), 4).tolist(),
    )
    return tuple(Word(*row) for row in zip(*columns, strict=True))
