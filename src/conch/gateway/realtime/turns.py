"""The turns of a realtime session: from the updates of its live audio to OpenAI's events.

A turn is an item of the conversation. With turn detection each utterance is one; without it, all
utterances between two commits are.

During speech, firm words go out as deltas under the id that the later commit names. The
design is LocalAI's (https://github.com/mudler/LocalAI, docs/content/features/openai-realtime.md).
Deltas can only be appended. So the deltas of an item, joined, are its text, unless a second pass
has corrected words that were firm. `completed` has the whole text and replaces them.

Nothing here waits or sends.
"""

from bisect import bisect
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from operator import itemgetter

from conch.gateway.errors import ApiError
from conch.gateway.live_segments import LiveSegment
from conch.gateway.live_session import LiveUpdate
from conch.gateway.realtime import events
from conch.gateway.realtime.events import Event
from conch.gateway.realtime.items import Item, ItemUtterance
from conch.wire.result import OpenUtterance, TurnEvent

LEAST_COMMIT_S = 0.1
"""Shortest audio that may be committed, as at OpenAI."""
MAX_COMMITTED = 100
"""Latest committed items, among which a late one gets its position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDialect:
    """Which events a client understands and wants."""

    is_beta: bool = False
    """Whether the events of an item are the beta's."""
    has_partials: bool = False
    """Whether there are events of words that may still change."""
    has_logprobs: bool = False
    """Whether `completed` has the log probabilities of the words."""
    hears_speech: bool = True
    """Whether speech begins before its words: without the VAD, only they show it."""


@dataclass(slots=True, eq=False)
class _Era:
    """A stretch of audio up to a commit, a clear, or other settings."""

    number: int
    item: Item | None
    """Item of all its utterances; None if each is an item."""
    speaking: Item | None = None
    """The item of the utterance that is being spoken, if each is an item."""
    is_dropped: bool = False
    """Whether the client has cleared the turn."""


class Turns:
    """Makes events of the updates of the audio, and of the client's requests.

    Each of `commit`, `clear` and `cut` goes with one mark of the live session: `finalize`, `clear`
    and `finalize`. The updates up to that mark belong to the audio before it. `audio_s` is always
    the audio that the session got so far, in seconds.
    """

    def __init__(self, *, is_manual: bool, style: EventDialect | None = None) -> None:
        """Begin before the first audio; `is_manual` says whether the client commits its turns."""
        self.style = style or EventDialect()
        self._is_manual = is_manual
        self._numbers = count()
        self._eras = deque([self._new_era()])
        """The first one is that of the next update, the last one that of the next audio."""
        self._owners: dict[int, Item] = {}
        """Item of each utterance that is not final, by index."""
        self._positions: dict[int, tuple[int, int]] = {}
        """Position of each utterance that is not final, by index."""
        self._committed: list[tuple[tuple[int, int], str]] = []
        """Position and id of the latest committed items, in order of time."""
        self._buffer_start_s = 0.0
        """Start of the audio that is not committed."""

    def after(self, update: LiveUpdate) -> list[Event]:
        era = self._eras[0]
        result: list[Event] = []
        for news in update.news:
            if isinstance(news, TurnEvent):
                result += self._tell(era, news)
            elif not news.is_relabelled:  # its item may be complete
                result += self._end(era, news)
        if update.utterance is not None:
            result += self._hear(era, update.index, update.utterance)
        elif era.speaking and era.speaking.utterances and not era.speaking.text:
            # What the VAD took for speech has no words, and no segment.
            noise, era.speaking = era.speaking, None
            result += self._stop_speech(era, noise, self._buffer_start_s, update.audio_s)
            result += self._complete(noise)
        if update.finalized or update.cleared:
            self._eras.popleft()
            result += self._finish(era, update.audio_s, keep=self._eras[0].item)
            # The next utterance has the number of a cleared one.
            self._positions.clear()
        return result

    def commit(self, audio_s: float) -> list[Event]:
        """Return the events of the client's commit; finalize the live session as well.

        With turn detection, an utterance that is being spoken is committed up to here. Raise an
        ApiError if there is no audio to commit.
        """
        seconds = audio_s - self._buffer_start_s
        if seconds < LEAST_COMMIT_S:
            raise ApiError(
                400,
                f"a commit takes at least {LEAST_COMMIT_S * 1000:.0f} ms of audio; the buffer has "
                f"{max(0.0, seconds) * 1000:.0f} ms",
                code="input_audio_buffer_commit_empty",
            )
        era = self._eras[-1]
        era.item = era.item or era.speaking or Item(is_single=False)
        era.item.is_single, era.speaking = False, None
        result = [events.speech_stopped(era.item.id, audio_s)] if era.item.has_begun else []
        result += self._commit(era, era.item, seconds)
        self._eras.append(self._new_era())
        self._buffer_start_s = audio_s
        return result

    def clear(self, audio_s: float) -> list[Event]:
        """Return the events of the client's clear; clear the live session as well."""
        # A turn may have begun under other settings.
        open_eras = [era for era in self._eras if era.item is None or not era.item.is_committed]
        items = _different([era.item or era.speaking for era in open_eras])
        for era in open_eras:
            era.item, era.speaking, era.is_dropped = None, None, True
        self._eras.append(self._new_era())
        self._buffer_start_s = audio_s
        result = [events.cleared()]
        for item in items:
            self._forget(item)
            if item.has_begun:
                result.append(events.speech_stopped(item.id, audio_s))
            if item.is_known:
                error = ApiError(400, "the client has cleared this audio", code="cleared")
                result.append(events.failed(item.id, error))
        return result

    def cut(self, *, is_manual: bool) -> None:
        """Begin other settings; finalize the live session as well.

        A turn of the client continues, or is committed once its text is there if turn detection is
        on from now on.
        """
        before = self._eras[-1].item
        self._is_manual = is_manual
        self._eras.append(self._new_era(before if is_manual else None))

    def finish(self, audio_s: float) -> list[Event]:
        eras, self._eras = self._eras, deque([self._new_era()])
        return [event for era in eras for event in self._finish(era, audio_s)]

    def fail(self, error: ApiError) -> list[Event]:
        """Return the events of a server that gives no further text."""
        eras, self._eras = self._eras, deque([self._new_era()])
        items = _different([*self._owners.values(), *(era.item for era in eras)])
        self._owners.clear()
        return [events.failed(item.id, error) for item in items if item.is_known]

    def _new_era(self, item: Item | None = None) -> _Era:
        if self._is_manual and item is None:
            item = Item(is_single=False)
        return _Era(next(self._numbers), item)

    def _new_position(self, era: _Era) -> tuple[int, int]:
        """Return a position in time after all earlier ones of an era."""
        return era.number, next(self._numbers)

    def _hear(self, era: _Era, index: int, spoken: OpenUtterance) -> list[Event]:
        is_speech = self.style.hears_speech and era.item is None
        item = self._owner(era, index, has_text=is_speech or bool(spoken.words))
        if item is None:
            return []
        result = self._begin_speech(item, spoken.start)
        if item.is_single:
            era.speaking = item
        item.utterances.setdefault(index, ItemUtterance()).hear(spoken)
        return [*result, *self._further_text(item)]

    def _tell(self, era: _Era, told: TurnEvent) -> list[Event]:
        begins = told.type == "speech_started"
        is_speech = self.style.hears_speech and era.item is None
        item = self._owner(era, told.index, has_text=begins) if is_speech else None
        if item is None:
            return []
        if not begins:
            return [events.turn(item.id, told)]
        era.speaking = item
        return self._begin_speech(item, told.at)

    def _end(self, era: _Era, ended: LiveSegment) -> list[Event]:
        segment = ended.segment
        item = self._owner(era, segment.index, has_text=bool(segment.text or segment.error))
        if item is None:
            if ended.is_final:
                del self._positions[segment.index]
            return []
        result = self._begin_speech(item, segment.start)
        item.utterances.setdefault(segment.index, ItemUtterance()).end(ended)
        if item.is_single and not item.is_committed:
            era.speaking = None
            result += self._stop_speech(era, item, segment.start, segment.end)
        if item.is_single and ended.is_final:
            return [*result, *self._complete(item)]
        return [*result, *self._further_text(item)]

    def _owner(self, era: _Era, index: int, *, has_text: bool) -> Item | None:
        """Return the item of an utterance, a new one if it has any; None for silence."""
        if index not in self._positions:
            self._positions[index] = self._new_position(era)
        if index not in self._owners and has_text and not era.is_dropped:
            self._owners[index] = era.item or Item(is_single=True)
        return self._owners.get(index)

    def _begin_speech(self, item: Item, start_s: float) -> list[Event]:
        if not item.is_single or item.has_begun:
            return []
        item.has_begun = True
        return [events.speech_started(item.id, start_s)]

    def _stop_speech(self, era: _Era, item: Item, start_s: float, end_s: float) -> list[Event]:
        self._buffer_start_s = max(self._buffer_start_s, end_s)
        stopped = events.speech_stopped(item.id, end_s)
        return [stopped, *self._commit(era, item, max(0.0, end_s - start_s))]

    def _commit(self, era: _Era, item: Item, seconds: float) -> list[Event]:
        item.is_committed, item.seconds = True, seconds
        # An utterance whose text only the second pass finds may come late.
        first = self._positions.get(min(item.utterances, default=-1)) if item.is_single else None
        position = first or self._new_position(era)
        at = bisect(self._committed, position, key=itemgetter(0))
        previous_id = self._committed[at - 1][1] if at else None
        self._committed.insert(at, (position, item.id))
        del self._committed[:-MAX_COMMITTED]
        return events.committed(item.id, previous_id, is_beta=self.style.is_beta)

    def _further_text(self, item: Item) -> list[Event]:
        result = self._delta(item)
        for index in item.fold():
            self._owners.pop(index, None)
            self._positions.pop(index, None)
        result += self._segments(item)
        if not self.style.has_partials:
            return result
        final, parts = item.take_final(), item.parts
        if final or parts != (item.shown or ("", "", "")):
            item.shown = parts
            result.append(events.partial(item.id, final, *parts))
        return result

    def _delta(self, item: Item) -> list[Event]:
        return [events.delta(item.id, text)] if (text := item.take_delta()) else []

    def _segments(self, item: Item) -> list[Event]:
        """Return the events of who says what of the final text, each once."""
        turns, item.turns = item.turns, []
        return [events.segment(item.id, turn) for turn in turns]

    def _complete(self, item: Item) -> list[Event]:
        self._forget(item)
        for utterance in item.utterances.values():
            utterance.settle()
        result = self._delta(item)
        item.fold()
        result += self._segments(item)
        if item.failure is not None and not item.text:
            return [events.failed(item.id, item.failure)]
        wanted = item.words if self.style.has_logprobs else None
        return [*result, events.completed(item.id, item.text, item.seconds, wanted)]

    def _finish(self, era: _Era, audio_s: float, keep: Item | None = None) -> list[Event]:
        """Complete all items of the audio before a mark, except the one to keep."""
        result: list[Event] = []
        for item in _different([*self._owners.values(), era.item]):
            if item is keep:
                continue
            if not item.is_committed and item.has_begun:
                result += self._stop_speech(era, item, self._buffer_start_s, audio_s)
            elif not item.is_committed and (item.text or item.is_known):
                seconds = max(0.0, audio_s - self._buffer_start_s)
                self._buffer_start_s = max(self._buffer_start_s, audio_s)
                result += self._commit(era, item, seconds)
            if item.is_committed:
                result += self._complete(item)
            else:
                self._forget(item)
        return result

    def _forget(self, item: Item) -> None:
        for index in [index for index, owner in self._owners.items() if owner is item]:
            del self._owners[index]
            self._positions.pop(index, None)


def _different(items: Sequence[Item | None]) -> list[Item]:
    """Return items, each of them once."""
    return list(dict.fromkeys(item for item in items if item is not None))
