"""What an answer to a live stream shows: the utterances that end, and the one that is spoken."""

from dataclasses import dataclass

from conch.wire.result import Transcript, text_of_words


@dataclass(frozen=True, slots=True)
class Ended:
    """An utterance that has ended, or whose text an answer replaces."""

    index: int
    text: str
    end_s: float
    """Seconds on the audio's clock."""
    is_final: bool
    """Whether no later answer replaces the text."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The part of an answer that a viewer sees."""

    at_s: float
    """When it came, in seconds after the stream's first sample was spoken."""
    ended: tuple[Ended, ...]
    """Utterances that are new or replaced."""
    text: str
    """Text of the utterance that is being spoken."""
    firm: str
    """The beginning of that text that stays until the utterance ends."""
    is_last: bool


def shown_by(answer: Transcript, now_s: float, *, has_second_pass: bool) -> Shown:
    ended = tuple(
        Ended(
            index=segment.index,
            text=segment.text,
            end_s=segment.end,
            is_final=segment.passes == 2 or not has_second_pass or bool(segment.error),
        )
        for segment in answer.segments
    )
    spoken = answer.utterance
    text, firm = (spoken.text, text_of_words(spoken.firm)) if spoken else ("", "")
    return Shown(now_s, ended, text, firm, answer.is_final)
