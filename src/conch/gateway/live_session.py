"""A live session: audio in at any pace, the text so far out, over one Triton stream or several.

A client sends frames of any length, pauses for as long as it likes, and may ask for the end of an
utterance at any time. Triton takes chunks of one stream, and drops a stream that gets none. This
module lies between the two and keeps one clock for the whole session.
"""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from conch.client import OptionValue, tensors
from conch.client.aio import timeout, within
from conch.client.live import AsyncLiveStream
from conch.gateway.live_audio import Samples
from conch.gateway.live_segments import LiveSegment, SegmentChanges
from conch.gateway.servers import SessionClient
from conch.session.joined_streams import JoinedStreams
from conch.session.resume_state import ResumePoint
from conch.wire.errors import ConchError, OverloadedError
from conch.wire.options import RecognitionOptions
from conch.wire.result import Hypothesis, OpenUtterance, Transcript, TurnEvent

LEAST_S = 0.16
"""Seconds of audio that are worth a chunk: a quarter of the server's step."""
QUIET_S = 0.25
"""Seconds without further audio after which less is a chunk as well."""
MOST_S = 5.0
"""Longest chunk in seconds: a client that catches up still sees its text grow."""
PENDING_S = 0.5
"""Seconds between two empty chunks that ask for a pass."""
PATIENCE_S = 30.0
"""Seconds without audio after which no further pass is expected."""
KEEP_ALIVE_S = 20.0
"""Seconds between two empty chunks that keep a stream: a third of the server's `stream_ttl_s`."""
MAX_STREAM_S = 86_400.0
"""Longest stream in seconds: the server's `max_stream_s`."""
OLD_SHARE = 0.9
"""Share of the longest stream after which a new one begins at the end of an utterance."""
ANSWER_TIMEOUT_S = 120.0
FREE_TIMEOUT_S = 2.0
"""Seconds that closing waits for the stream to end; clean-up then continues in the background."""
HISTORY_S = 1
"""Seconds of ended utterances that the server keeps: the session keeps the rest."""
MAX_WAITING = 10_000
"""Frames and requests that may wait: half a minute of the shortest usual frames, of 3 ms. Shorter
ones would take more memory than their audio."""
STALL_S = 25.0
"""Seconds without progress of the server after which a client that waits is sent away: before its
pings, which are not read meanwhile, are missed."""
MAX_UPDATES = 32
"""Updates that may wait to be taken. With more, the server is not asked."""

_Mark: TypeAlias = Callable[[], Awaitable[None]]
"""A call that is made once the audio before it is recognised."""

_EMPTY = np.zeros(0, np.float32)
_NOTHING = Transcript((Hypothesis("", 0.0, 0.0),), (), 0.0, (), {})


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveUpdate:
    """The state of a session after an answer of the server."""

    audio_s: float
    """Seconds of audio that the server has recognised, on the session's clock."""
    utterance: OpenUtterance | None
    """The utterance that is being spoken, on the session's clock."""
    index: int
    """Number in the session that the segment of this utterance will have."""
    segments: tuple[LiveSegment, ...]
    """Utterances that ended, or got their second pass, with this update."""
    transcript: Transcript
    """The answer, on the session's clock."""
    finalized: bool = False
    """Whether this is the last update of a `finalize`."""
    cleared: bool = False
    """Whether this is the last update of a `clear`."""
    is_keep_alive: bool = False
    """Whether no audio was sent for this answer."""
    cut: ResumePoint | None = None
    """Point from which another session would go on."""

    @property
    def news(self) -> "Iterator[LiveSegment | TurnEvent]":
        """The segments and, each before that of its utterance, the turn events, in order."""
        told = deque(self.transcript.turn_events)
        for item in self.segments:
            while told and told[0].index <= item.segment.index:
                yield told.popleft()
            yield item
        yield from told

    def text_of(self, index: int) -> str:
        """Return the text of an utterance that is being spoken, or has just ended."""
        ended = {item.segment.index: item.segment.text for item in self.segments}
        return ended.get(index, self.utterance.text if self.utterance else "")

    @property
    def has_text(self) -> bool:
        return bool(self.utterance and self.utterance.words) or any(
            item.segment.text for item in self.segments
        )


class LiveSession:
    """One live session on a server: one Triton live stream after another, on one clock.

    One task feeds the session and another one takes the updates. If nobody takes them, the audio
    waits, and there is soon no room for more. A client whose requests are read only when there is
    room sends at the pace of the server, and costs no memory.
    """

    def __init__(
        self,
        client: SessionClient,
        options: RecognitionOptions | Mapping[str, OptionValue],
        *,
        sample_rate: int,
        max_backlog_s: float,
        request_id: str = "",
        joins: bool = True,
        sent_before_s: float = 0.0,
        max_stream_s: float = MAX_STREAM_S,
        freeing: "set[asyncio.Task[None]] | None" = None,
    ) -> None:
        """Prepare a session; the server gets its first request with the first audio.

        Args:
            max_backlog_s: Seconds of audio that may wait before further ones are not read.
            request_id: Id of the session's requests in the server's log.
            joins: Whether frames that wait are sent as one chunk. Otherwise each is one chunk, and
                has one update that is no keep-alive.
            sent_before_s: Seconds at the beginning whose words an earlier session has sent.
            max_stream_s: Longest stream that the server takes, in seconds.
            freeing: Holds the task that ends the server's stream after the session.
        """
        self._client = client
        self._sample_rate, self._max_backlog_s = sample_rate, max_backlog_s
        self._request_id, self._joins = request_id, joins
        self._max_stream_s = max_stream_s
        self._freeing = set() if freeing is None else freeing
        self._options = self._latest_options = _checked(options)
        """Options of the next stream, and of the streams after all marks that wait."""
        self._waiting: deque[Samples | _Mark] = deque()
        self._num_waiting = self._num_fed = 0
        """Samples that wait, and that were fed."""
        self._joined = JoinedStreams(sample_rate, sent_before_s)
        self._stream: AsyncLiveStream | None = None
        self._request: asyncio.Future[Transcript] | None = None
        """The request in flight, or the latest one."""
        self._sent_s, self._changes = 0.0, SegmentChanges()
        """Seconds of audio sent in the present stream, and what is new in its answers."""
        self._fed_at = self._sent_at = -math.inf
        self.first_audio_at: float | None = None
        """When audio was first fed, by the clock of the event loop."""
        self._changed = asyncio.Event()
        """Set whenever something was added to `_waiting`."""
        self._taken = asyncio.Event()
        """Set whenever something was taken of it, or nothing is taken any more."""
        self._updates: asyncio.Queue[LiveUpdate | None] = asyncio.Queue(MAX_UPDATES)
        self._error: Exception | None = None
        self._ended_by: Exception | None = None
        self.is_closed = False
        self._sender: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "LiveSession":
        self._sender = asyncio.create_task(self._send_all())
        return self

    async def __aexit__(self, exc_type: object, *exc_info: object) -> None:
        """Free the server's stream, end `updates`, and raise the error that `close` was given."""
        self.is_closed = True
        assert self._sender is not None
        self._sender.cancel()
        freeing = asyncio.create_task(self._free(self._sender))
        self._freeing.add(freeing)
        freeing.add_done_callback(self._freeing.discard)
        with suppress(asyncio.TimeoutError):
            async with timeout(FREE_TIMEOUT_S):
                await asyncio.shield(freeing)
        if exc_type is None and self._ended_by is not None:
            raise self._ended_by

    async def _free(self, sender: "asyncio.Task[None]") -> None:
        await asyncio.gather(sender, return_exceptions=True)
        while not self._updates.empty():
            self._updates.get_nowait()
        self._updates.put_nowait(None)
        if self._stream is not None:
            stream, self._stream = self._stream, None
            if self._request is not None:
                with suppress(ConchError):
                    await self._request
            async with stream:  # leaving it ends the stream
                pass

    @property
    def audio_s(self) -> float:
        """Seconds of audio fed so far."""
        return self._num_fed / self._sample_rate

    @property
    def backlog_s(self) -> float:
        """Seconds of audio that wait for the server."""
        return self._num_waiting / self._sample_rate

    async def room(self) -> None:
        """Wait until more may be added, or raise an OverloadedError without progress."""
        while not (self.is_closed or self._error is not None) and (
            self.backlog_s >= self._max_backlog_s or len(self._waiting) >= MAX_WAITING
        ):
            self._taken.clear()
            stalls = f"the server has taken no audio for {STALL_S:g} s; try again later"
            async with within(STALL_S, OverloadedError(stalls)):
                await self._taken.wait()

    async def feed(self, samples: Samples) -> None:
        """Wait for room, and add samples; after `close` they are left out.

        `samples` are mono [N] at the session's rate, int16 or float32 in [-1, 1], of one type.
        Raise an OverloadedError if the server makes no progress.
        """
        await self.room()
        if self.is_closed or self._error is not None or (self._joins and not len(samples)):
            return
        self._add(samples)
        self._num_fed += len(samples)
        self._num_waiting += len(samples)
        self._fed_at = _now()
        if self.first_audio_at is None:
            self.first_audio_at = self._fed_at

    def finalize(self) -> None:
        """End the utterance now; the last update of it is marked as `finalized`."""
        self._add(partial(self._end, "finalize", finalized=True))

    def clear(self) -> None:
        """Throw away the utterance that is being spoken; the last update is marked as `cleared`.

        Audio that waits is not recognised, unless `finalize` was called after it. Utterances that
        have ended still get their second pass. The time of the audio counts on the clock.
        """
        while self._waiting and isinstance(samples := self._waiting[-1], np.ndarray):
            self._num_waiting -= len(samples)
            self._waiting.pop()
        self._add(partial(self._end, cleared_until=self._num_fed))

    def reconfigure(self, options: RecognitionOptions | Mapping[str, OptionValue]) -> None:
        """End the utterance now, and use other options for the audio from here on.

        No update is marked as `finalized`. Raise an OptionError, and change nothing, if one is
        wrong.
        """
        checked = _checked(options)
        if checked.sent != self._latest_options.sent:
            self._latest_options = checked
            self._add(partial(self._change_to, checked))

    def close(self, ended_by: Exception | None = None) -> None:
        """Take no more audio, because of an error or not; `updates` ends after the last one."""
        if not self.is_closed:
            self.is_closed, self._ended_by = True, ended_by
            self._add(self._end)
            self._taken.set()

    async def updates(self) -> AsyncIterator[LiveUpdate]:
        """Yield an update for each answer of the server; raise a ConchError if it has failed."""
        while (update := await self._updates.get()) is not None:
            yield update
        if self._error is not None:
            raise self._error

    def _add(self, item: "Samples | _Mark") -> None:
        self._waiting.append(item)
        self._changed.set()

    async def _send_all(self) -> None:
        try:
            while self._waiting or not self.is_closed:
                await self._send_next()
        except Exception as error:
            self._error = error
            self._waiting.clear()
            if self._stream is not None and (last := self._stream.settled()) is not None:
                await self._put(last, is_keep_alive=True)
            self._taken.set()
        await self._updates.put(None)

    async def _send_next(self) -> None:
        while (wait_s := self._wait_s()) > 0:
            self._changed.clear()
            with suppress(asyncio.TimeoutError):
                async with timeout(None if math.isinf(wait_s) else wait_s):
                    await self._changed.wait()
        if not self._waiting:
            assert self._stream is not None
            await self._ask(self._stream, _EMPTY, is_keep_alive=True)
        elif isinstance(item := self._waiting[0], np.ndarray):
            await self._send_chunk()
        else:
            self._waiting.popleft()
            self._taken.set()
            await item()

    def _wait_s(self) -> float:
        """Return the seconds until the next chunk or mark is due, infinity if only audio is."""
        now = _now()
        if not self._waiting:
            if self._stream is None:
                return math.inf
            # What is left of a step of the server that is not complete.
            unheard_s = self._joined.kept.end / self._sample_rate - self._joined.duration
            is_pending = self._joined.state.is_pending or unheard_s > LEAST_S
            is_pending &= now < self._fed_at + PATIENCE_S
            return self._sent_at + (PENDING_S if is_pending else KEEP_ALIVE_S) - now
        is_complete = not self._joins or not all(
            isinstance(item, np.ndarray) for item in self._waiting
        )
        return 0.0 if is_complete else wait_for_more_s(self.backlog_s, now - self._fed_at)

    async def _send_chunk(self) -> None:
        """Send the audio in front, in a new stream if none is open or this one is too old."""
        most = round(MOST_S * self._sample_rate)
        chunk = joined(self._waiting, most) if self._joins else self._waiting.popleft()
        assert isinstance(chunk, np.ndarray)
        self._num_waiting -= len(chunk)
        self._taken.set()
        seconds = len(chunk) / self._sample_rate
        if self._stream is not None and self._sent_s + seconds > self._max_stream_s:
            await self._end("length")
        if self._stream is None:
            self._stream = self._opened()
            self._sent_s, self._changes = 0.0, SegmentChanges()
        self._sent_s += seconds
        await self._ask(self._stream, chunk)
        is_old = self._sent_s > OLD_SHARE * self._max_stream_s
        if is_old and not self._joined.state.is_pending:
            await self._end("length")

    async def _ask(
        self, stream: AsyncLiveStream, chunk: Samples, *, is_keep_alive: bool = False
    ) -> None:
        answer = await self._answered(stream.send(chunk))
        self._sent_at = _now()
        await self._put(answer, is_keep_alive=is_keep_alive)

    async def _answered(self, request: Awaitable[Transcript]) -> Transcript:
        # A request is not cancelled: Triton 2.51 may then never end it.
        self._request = asyncio.ensure_future(request)
        return await asyncio.shield(self._request)

    def _opened(self) -> AsyncLiveStream:
        return self._client.live(
            sample_rate=self._sample_rate,
            timeout_s=ANSWER_TIMEOUT_S,
            request_id=self._request_id,
            options=self._options,
            joined=self._joined,
        )

    async def _change_to(self, options: RecognitionOptions) -> None:
        await self._end("finalize")
        self._options = options

    async def _end(
        self, endpoint: str = "end", *, finalized: bool = False, cleared_until: int | None = None
    ) -> None:
        """End the stream and put its last answer into an update.

        Args:
            endpoint: What ends an utterance that is still open.
            finalized: See `LiveUpdate`.
            cleared_until: Sample of the session up to which audio is thrown away, with the
                utterances that had not ended before; None to keep them.
        """
        answer, cleared = _NOTHING, cleared_until is not None
        num_segments = self._joined.state.next_index
        if self._stream is not None:
            answer = await self._answered(self._stream.finish())
            self._stream = None
        elif not (finalized or cleared):
            return
        if cleared_until is not None:
            self._joined.clear(cleared_until, num_segments)
            before = tuple(item for item in answer.segments if item.index < num_segments)
            answer = replace(answer, segments=before, utterance=None, turn_events=())
        await self._put(answer, endpoint, finalized=finalized, cleared=cleared)

    async def _put(self, answer: Transcript, endpoint: str = "end", **flags: bool) -> None:
        update = LiveUpdate(
            audio_s=self._joined.duration,
            utterance=answer.utterance,
            index=self._joined.state.next_index,
            segments=self._changes.of(answer, self._joined.news, endpoint),
            transcript=answer,
            cut=self._joined.state.cut(),
            **flags,
        )
        await self._updates.put(update)


def wait_for_more_s(waiting_s: float, quiet_s: float) -> float:
    """Return the seconds to wait for more audio before a chunk is sent, 0 for none."""
    return 0.0 if waiting_s >= LEAST_S else max(0.0, QUIET_S - quiet_s)


def joined(waiting: "deque[Samples | _Mark]", most: int) -> Samples:
    """Take the audio in front of the first mark, at most this many samples; the rest stays."""
    pieces: list[Samples] = []
    size = 0
    while size < most and waiting and isinstance(piece := waiting[0], np.ndarray):
        waiting.popleft()
        left = piece[most - size :]
        pieces.append(piece[: most - size])
        size += len(pieces[-1])
        if len(left):
            waiting.appendleft(left)
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _checked(options: RecognitionOptions | Mapping[str, OptionValue]) -> RecognitionOptions:
    return tensors.checked(options, live=True).unless_sent(history_s=HISTORY_S)


def _now() -> float:
    return asyncio.get_running_loop().time()
