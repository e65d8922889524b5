"""What an answer to a live stream shows: the utterances that end, and the one that is spoken."""

from dataclasses import dataclass

from conch.wire.joining import joined_text
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


class ScreenLog:
    """Recorder of what each answer shows. It keeps the changes, because streams are long."""

    def __init__(self, *, has_second_pass: bool) -> None:
        """Start with an empty screen.

        Args:
            has_second_pass: whether a second pass replaces the text of an ended utterance.
        """
        self._has_second_pass = has_second_pass
        self._texts: dict[int, str] = {}

    def shown(self, answer: Transcript, now_s: float) -> Shown:
        """Return what an answer shows that came `now_s` seconds after the first sample.

        Where an answer has no `utterance`, the text of the open utterance follows the ended ones in
        `text`, and its firm words are in `stable`.
        """
        ended = tuple(
            Ended(
                index=segment.index,
                text=segment.text,
                end_s=segment.end,
                is_final=segment.passes == 2 or not self._has_second_pass or bool(segment.error),
            )
            for segment in answer.segments
        )
        self._texts |= {item.index: item.text for item in ended}
        text: str | None
        firm: str | None
        if answer.utterance is not None:
            text, firm = answer.utterance.text, text_of_words(answer.utterance.firm)
        else:
            before = joined_text(self._texts[index] for index in sorted(self._texts))
            text, firm = _following(answer.text, before), _following(answer.stable, before)
        return Shown(now_s, ended, text or "", firm or "", answer.is_final)


def _following(text: str, before: str) -> str | None:
    """Return what follows a beginning of a text; None if the text begins otherwise."""
    return text.removeprefix(before).strip() if text.startswith(before) else None
