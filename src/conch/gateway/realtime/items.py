"""A turn of a realtime session: its text so far, and what of it the client was sent."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import takewhile

from conch.gateway.errors import ApiError, api_error
from conch.gateway.live_segments import LiveSegment
from conch.gateway.realtime import events
from conch.wire.errors import OptionError
from conch.wire.joining import joined_text
from conch.wire.result import OpenUtterance, Segment, Word, text_of_words
from conch.wire.turns import cut_by_speaker


@dataclass(slots=True, eq=False)
class ItemUtterance:
    """One utterance of an item: its text so far, and what of it was sent."""

    text: str = ""
    """Whole text, sure or not."""
    sure: str = ""
    """Beginning of the text that is firm; all of it once it is final."""
    solid: str = ""
    """Beginning of the text that a rolling pass has confirmed."""
    sent: str = ""
    words: tuple[Word, ...] = ()
    """Words of the final text, where the session asks for them."""
    turns: tuple[Segment, ...] = ()
    """Text of each speaker in turn, where the session asks for speakers."""
    failure: ApiError | None = None
    """Why there is no second pass."""
    is_final: bool = False

    def hear(self, spoken: OpenUtterance) -> None:
        """Take its text while it is spoken."""
        self.text = spoken.text
        self.sure = text_of_words(spoken.firm)
        self.solid = text_of_words((*spoken.firm, *spoken.tentative))

    def end(self, ended: LiveSegment) -> None:
        """Take the text of its end, or of its second pass."""
        self.text = self.solid = ended.segment.text
        self.words = ended.segment.words
        self.turns = tuple(cut_by_speaker(ended.segment)) if ended.segment.speaker else ()
        self.failure = _failure_of(ended.segment)
        if ended.is_final:
            self.settle()

    def settle(self) -> None:
        self.sure, self.is_final = self.text, True

    @property
    def unsent(self) -> str:
        """Return the sure text after the deltas; nothing if they were corrected."""
        return self.sure[len(self.sent) :] if self.sure.startswith(self.sent) else ""


@dataclass(slots=True, eq=False)
class Item:
    """A turn, from its speech to its text."""

    is_single: bool
    """Whether the item ends with its utterance, which turn detection found."""
    id: str = field(default_factory=lambda: events.new_id("item"))
    final: list[str] = field(default_factory=list)
    """Texts of its first utterances, which no longer change: a long turn has many."""
    words: list[Word] = field(default_factory=list)
    turns: list[Segment] = field(default_factory=list)
    """Turns of speakers in the final texts that were not sent yet."""
    failure: ApiError | None = None
    utterances: dict[int, ItemUtterance] = field(default_factory=dict)
    """Utterances that are not final, by index in the session, in order."""
    has_begun: bool = False
    """Whether the client was sent that speech has begun."""
    has_delta: bool = False
    is_committed: bool = False
    seconds: float = 0.0
    shown: tuple[str, str, str] | None = None
    """Texts of the item's latest partial event; None before the first one."""
    num_shown: int = 0
    """Final texts in its partial events."""

    @property
    def is_known(self) -> bool:
        """Whether the client has events of this item."""
        return self.is_committed or self.has_begun or self.has_delta or self.shown is not None

    @property
    def text(self) -> str:
        others = (utterance.text for utterance in self.utterances.values())
        return joined_text([*self.final, *others])

    @property
    def parts(self) -> tuple[str, str, str]:
        """Return firm, tentative and newest text, which are `text` if joined to the final one."""
        spoken = [*self.utterances.values()]
        num_settled = sum(1 for _ in takewhile(lambda item: item.is_final, spoken))
        texts = (
            [item.text for item in spoken],
            [item.sure for item in spoken[: num_settled + 1]],
            [item.solid for item in spoken],
        )
        before = self.final[-1] if self.final else ""
        text, *ends = (_continued(before, part) for part in texts)
        first, second = map(len, ends)
        return text[:first], text[first:second], text[second:]

    def take_final(self) -> str:
        """Return the final text that no partial event had, and mark it as sent."""
        before = self.final[self.num_shown - 1] if self.num_shown else ""
        text = _continued(before, self.final[self.num_shown :])
        self.num_shown = len(self.final)
        return text

    def fold(self) -> list[int]:
        """Join the first utterances that are final, and return their indices.

        Otherwise each update would look at all of a long turn.
        """
        folded = list(takewhile(lambda index: self.utterances[index].is_final, self.utterances))
        for index in folded:
            utterance = self.utterances.pop(index)
            self.final += [utterance.text] * bool(utterance.text)
            self.words += utterance.words
            self.turns += utterance.turns
            self.failure = self.failure or utterance.failure
        return folded

    def take_delta(self) -> str:
        """Return the sure text that was not sent, and mark it as sent.

        An utterance waits for the ones before it, because deltas can only be appended.
        """
        text = ""
        for utterance in self.utterances.values():
            if new := utterance.unsent:
                is_first = not utterance.sent
                text += f" {new}" if is_first and (self.has_delta or text) else new
                utterance.sent += new
            if not utterance.is_final:
                break
        self.has_delta |= bool(text)
        return text


def _continued(before: str, texts: Iterable[str]) -> str:
    """Return texts as they go on after another one."""
    return joined_text([before, *texts])[len(before) :]


def _failure_of(segment: Segment) -> ApiError | None:
    """Return why an utterance has no second pass; None if it has one."""
    if segment.error_code == OptionError.code:
        return api_error(OptionError(segment.error))
    return ApiError(500, segment.error, code="no_text") if segment.error else None
