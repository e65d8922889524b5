"""What a live stream tells of its turns before their text: pure state, nothing here waits."""

from typing import Literal

from conch.component import SAMPLE_RATE
from conch.recognition.live.endpointing import SpeechExtent
from conch.wire.options import RecognitionOptions
from conch.wire.result import TurnEvent


class TurnEvents:
    """The events of one utterance after the other, each told once."""

    def __init__(self, options: RecognitionOptions) -> None:
        self._least = options.eager_end_threshold
        self._new: list[TurnEvent] = []
        self._has_begun, self._heard = False, 0
        """Whether the utterance was told to begin, and the end of its speech so far, in samples."""
        self._ended_at: int | None = None
        """End of the speech whose end was told to be probable, in samples; None for none."""

    def hear(self, speech: SpeechExtent, index: int, probability: float = 0.0) -> None:
        """Take the speech so far of utterance `index`, with the probability that it has ended."""
        if speech.first is None or speech.after_last < self._heard:
            return
        self._heard = speech.after_last
        if not self._has_begun:
            self._has_begun = True
            self._tell("speech_started", speech.first, index)
        if self._ended_at is not None and speech.after_last > self._ended_at:
            self._ended_at = None
            self._tell("resumed", speech.latest, index)
        if self._ended_at is None and self._least <= probability and self._least < 1:
            self._ended_at = speech.after_last
            self._tell("eager_end", speech.after_last, index, probability=round(probability, 4))

    def end(self) -> None:
        self._has_begun, self._ended_at = False, None

    def take(self) -> tuple[TurnEvent, ...]:
        new, self._new = tuple(self._new), []
        return new

    def _tell(
        self,
        event_type: Literal["speech_started", "eager_end", "resumed"],
        at: int,
        index: int,
        **more: float,
    ) -> None:
        self._new.append(TurnEvent(event_type, round(at / SAMPLE_RATE, 3), index, **more))
