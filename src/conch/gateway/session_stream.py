"""One Triton stream of a live session: what it was sent, and which of its segments have changed."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass, replace

from conch.client.live import AsyncLiveStream
from conch.gateway.live_audio import Samples
from conch.session.resume_state import LOST
from conch.wire.errors import ConchError
from conch.wire.result import Segment, Transcript

MAX_LABELLED = 100
"""Latest utterances whose speakers may still change."""


@dataclass(frozen=True, slots=True)
class LiveSegment:
    """An utterance that has ended."""

    segment: Segment
    """The utterance, on the clock of the session. `endpoint` is `silence`, `length`, `finalize`, or
    `end` of the session."""
    is_final: bool
    """False while its second pass is to come."""
    is_relabelled: bool = False
    """Whether it was final before, and only its speakers are others."""


class SessionStream:
    """One live stream of a session, whose answers are on the session's clock."""

    def __init__(self, live: AsyncLiveStream) -> None:
        self.live = live
        self._request: asyncio.Future[Transcript] | None = None
        """The request in flight, or the latest one."""
        self._speakers: dict[int, tuple[str, ...]] = {}
        """Speakers of the words of the latest segments, by their indices."""
        self.sent_s = 0.0
        """Seconds of audio sent so far."""

    async def send(self, chunk: Samples, seconds: float) -> Transcript:
        """Send the next samples, which last so many seconds, and return the answer."""
        self.sent_s += seconds
        return await self._answered(self.live.send(chunk))

    async def finish(self) -> Transcript:
        return await self._answered(self.live.finish())

    async def free(self) -> None:
        """End the stream, whatever its answer."""
        if self._request is not None:
            with suppress(ConchError):
                await self._request
        async with self.live:  # leaving it ends the stream
            pass

    async def _answered(self, request: Awaitable[Transcript]) -> Transcript:
        # A request is not cancelled: Triton 2.51 may then never end it.
        self._request = asyncio.ensure_future(request)
        return await asyncio.shield(self._request)

    def changed(self, answer: Transcript, endpoint: str) -> tuple[LiveSegment, ...]:
        """Return the segments of an answer that are new or got their second pass."""
        changes = []
        news = self.live.joined.news
        for segment in answer.segments:
            is_known = segment.index not in news
            if not self._takes_speakers(segment) and is_known:
                continue
            if segment.endpoint == "end":
                segment = replace(segment, endpoint=endpoint)
            elif segment.endpoint == LOST and not segment.text:
                segment = replace(segment, error="")  # the next stream has heard it again
            is_final = news.get(segment.index, True)
            changes.append(LiveSegment(segment, is_final, is_relabelled=is_known))
        return tuple(changes)

    def _takes_speakers(self, segment: Segment) -> bool:
        """Return whether a segment has other speakers than before."""
        speakers = tuple(str(word.speaker) for word in segment.words) if segment.speaker else ()
        before = self._speakers.get(segment.index, ())
        if speakers:
            self._speakers[segment.index] = speakers
            while len(self._speakers) > MAX_LABELLED:
                del self._speakers[min(self._speakers)]
        return speakers != before
