"""The turn events of a session: its streams may hear the same audio, and each can be lost."""

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from conch.wire.result import TurnEvent

SAME_S = 1.0
"""Two streams find the same beginning within so many seconds."""


class SessionTurns:
    """The events since the last answer, so that none comes twice and no eager end stays open."""

    def __init__(self) -> None:
        self._new: list[TurnEvent] = []
        self._begun = self._known = -1
        """Index of the latest utterance whose beginning was told, and of the latest such one that a
        lost stream has heard."""
        self._begun_at = 0.0
        self._probable: TurnEvent | None = None
        """The eager end that was neither taken back nor true yet."""

    def hear(self, events: Iterable[TurnEvent], next_index: int) -> None:
        """Add the events of an answer, after which the next utterance to end is `next_index`."""
        for event in events:
            if event.type == "speech_started":
                if event.index <= self._known and event.at < self._begun_at + SAME_S:
                    continue
                self._begun, self._begun_at = event.index, event.at
            self._probable = event if event.type == "eager_end" else None
            self._new.append(event)
        if self._probable is not None and self._probable.index < next_index:
            self._probable = None

    def lose(self) -> None:
        """Take note of a lost stream: the next one finds out again whether an end is probable."""
        self._known = self._begun
        if self._probable is not None:
            no_more = replace(self._probable, type="resumed", probability=msgspec.UNSET)
            self._new.append(no_more)
            self._probable = None

    def clear(self, index: int) -> None:
        """Forget the utterances from an index on: others get their numbers."""
        self._begun = self._known = index - 1
        self._probable = None

    def take(self) -> tuple[TurnEvent, ...]:
        new, self._new = tuple(self._new), []
        return new
