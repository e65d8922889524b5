"""Live streams: send audio in chunks while it is spoken, and get the text so far.

A stream whose server is lost goes on in another one. Which audio is sent again, and how the texts
are joined, is in `conch.session`.
"""

import asyncio
import contextlib
import math
import secrets
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conch.client import tensors
from conch.client.poison import MAX_LOSSES, blames, refusal
from conch.session.joined_streams import JoinedStreams
from conch.wire.entry_points import ChunkPosition
from conch.wire.errors import (
    ConchError,
    DeadlineError,
    InvalidRequestError,
    OptionError,
    OverloadedError,
    ServerLostError,
    SessionError,
    UnreachableError,
)
from conch.wire.options import RecognitionOptions
from conch.wire.result import Transcript

Infer = Callable[[tensors.Request], Awaitable[Transcript]]
"""Sends the request of a chunk and returns the answer."""

NOTHING = np.zeros(0, np.float32)
"""The last chunk of a stream whose samples were all sent."""
RESUME_S = 60.0
"""Seconds to look for a server after one was lost: `conch serve` needs about 10 to replace it."""
START_SAMPLES = 1600
"""Most samples of the chunk that opens another stream. A proxy without a server breaks off a
connection that is still sending more."""
BACKOFF_S, MAX_BACKOFF_S = 0.1, 2.0
"""First and longest pause between two attempts, in seconds; each is twice the one before."""
PIECE_S = 1.0
"""Longest chunk of audio that is sent again, in seconds: each has to meet `deadline_ms`."""
GAVE_UP = "the server was lost, and the stream went on in no other"
"""Beginning of the error of a stream for which no server was found."""
ABANDON_S = 5.0
"""Seconds to end a stream on a server after it has gone on elsewhere."""


class ServerStream:
    """One live stream of a server, from its first chunk to its last."""

    def __init__(
        self, infer: Infer, common: tensors.Request, sample_rate: int, *, is_kept: bool
    ) -> None:
        """Send the parameters of `common` first; with `is_kept` a START that is lost is there."""
        self._infer, self._common, self._sample_rate = infer, common, sample_rate
        self._is_kept = is_kept
        self._id, self._session = uuid.uuid4().hex, secrets.token_hex(8)
        self.has_started = self.has_ended = False

    async def send(self, samples: NDArray[Any], *, ends: bool) -> Transcript:
        """Send the next samples [N] and return the answer; after an error START or END repeats."""
        starts = not self.has_started
        options = self._common.parameters if starts else {}
        request = self._request(samples, options, starts=starts, ends=ends)
        self.has_started, self.has_ended = True, ends
        try:
            return await self._infer(request)
        except ConchError as error:
            # A stream whose START was lost on its way may be there.
            if starts and not (self._is_kept and type(error) is ServerLostError):
                self.has_started = False
            if ends:
                self.has_ended = False
            raise

    async def abandon(self, timeout_s: float = math.inf) -> None:
        """End the stream without reading its last text, in the time of a chunk at most."""
        request = self._request(NOTHING, {"abandon": True}, starts=False, ends=True)
        await self._infer(replace(request, timeout_s=min(timeout_s, request.timeout_s)))

    def _request(
        self,
        samples: NDArray[Any],
        parameters: Mapping[str, tensors.OptionValue],
        *,
        starts: bool,
        ends: bool,
    ) -> tensors.Request:
        return replace(
            self._common,
            inputs=tensors.chunk_tensors(samples, self._sample_rate),
            parameters={"session": self._session, **parameters},
            position=ChunkPosition(self._id, starts, ends),
        )


@dataclass(frozen=True, slots=True)
class Resumption:
    """A server was lost, and the stream went on in another one."""

    error: ConchError
    """The error by which the loss was noticed."""
    audio_s: float
    """Start of the new stream, in seconds from the start of the first one."""
    sent_again_s: float
    """Seconds of audio that were sent again."""
    waited_s: float
    """Seconds until a server answered."""


class AsyncLiveStream:
    """Send live audio chunk by chunk and await the answers; `AsyncClient.live` returns one.

    Chunks sent at once keep their order: each waits for the answer to the one before. Leaving its
    `async with` block before `finish` ends the stream on the server, without a last text.
    """

    def __init__(
        self,
        infer: Infer,
        *,
        sample_rate: int,
        timeout_s: float,
        model: str,
        options: RecognitionOptions | Mapping[str, tensors.OptionArgument],
        request_id: str = "",
        keep_segments: bool = True,
        resume_s: float = 0.0,
        on_loss: Callable[[ConchError], None] = lambda error: None,
        elsewhere: Callable[[], Awaitable[Infer]] | None = None,
        joined: JoinedStreams | None = None,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Begin before the first chunk; `AsyncClient.live` has the other arguments.

        `elsewhere` returns what takes the place of `infer` at another server, before a stream goes
        on there, or for the first chunk. `joined` joins the streams of a session that has several
        of these; it goes with `resume_s`.
        """
        parsed = tensors.checked(options, live=True)
        if not resume_s >= 0:
            raise OptionError(f"resume_s is a number of seconds from 0 up; sent: {resume_s!r}")
        self._sample_rate, self._timeout_s = sample_rate, timeout_s
        self._resume_s, self._on_loss, self._now, self._sleep = resume_s, on_loss, now, sleep
        self._infer, self._elsewhere = infer, elsewhere
        self._common = tensors.Request(model, {}, parsed.sent, timeout_s, request_id=request_id)
        """Fields that the requests of all chunks share."""
        self._turn = asyncio.Lock()
        """Held from a chunk to its answer."""
        self.joined = joined or JoinedStreams(sample_rate, keeps_segments=keep_segments)
        self.joined.begin(parsed)
        self._stream = self._opened()
        self._had_server = elsewhere is not None
        self._is_lost = False
        """Whether the server's stream is gone."""
        self._loss: tuple[ConchError, float] | None = None
        """Error and time of the loss, until another stream has answered."""
        self._losses: list[ServerStream] = []
        """Streams whose server was lost with the same audio."""
        self._suspect_until = 0
        """End of the audio that the first of `_losses` had, in samples."""
        self._sent_again_s = 0.0
        """Seconds of audio that the present stream has heard again."""
        self._abandoned: deque[ServerStream] = deque()
        """Earlier streams that their servers may still have."""
        self.resumptions: tuple[Resumption, ...] = ()
        """The losses of a server after which the stream went on, in order."""

    async def __aenter__(self) -> "AsyncLiveStream":
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """End the stream on the server, if `finish` was not called."""
        if self._stream.has_started and not self._stream.has_ended and not self._is_lost:
            self._stream.has_ended = True
            with contextlib.suppress(ConchError):
                await self._stream.abandon()

    async def send(self, chunk: NDArray[Any]) -> Transcript:
        """Send the next samples and return what is new.

        The `segments` of the transcript are the utterances that ended, or got their second pass,
        since the last answer. `text` begins with the first utterance that is one of them or that
        may still change, with `repeat_text` up to `history_s` before it. `stable` is the beginning
        of `text` that no longer changes.

        Args:
            chunk: Mono samples [N] of any number: floats in [-1, 1], int32, or int16 in half the
                bytes. With none, the server looks whether the audio has stopped.

        Raises:
            AudioError: the chunk is not a waveform. The stream stays open.
            ServerLostError: the server was lost, and none that takes the stream was found within
                `resume_s`. The chunk counts as sent: the next one looks for a server again.
            SessionError: without `resume_s`: the stream has expired, or an error has ended it.
            RuntimeError: `finish` was called before.
            ConchError: the errors of `AsyncClient.transcribe`. After one that ended the stream, the
                next chunk goes on in another.
        """
        return await self._answer(chunk, ends=False)

    async def finish(self, chunk: NDArray[Any] | None = None) -> Transcript:
        """Send the last samples, if there are any, and return the final transcript.

        It holds all utterances of the stream. Those from before `history_s` are kept here; without
        `keep_segments` they are left out.

        Args:
            chunk: The last samples, as of `send`.

        Raises:
            ConchError: the errors of `send`.
            RuntimeError: `finish` was called before.
        """
        return await self._answer(NOTHING if chunk is None else chunk, ends=True)

    def settled(self) -> Transcript | None:
        """Return an answer that ends the firm text after an error; None if no server was lost."""
        is_lost = self._is_lost or self._loss is not None
        return self.joined.settled() if is_lost else None

    async def _answer(self, chunk: NDArray[Any], *, ends: bool) -> Transcript:
        samples = tensors.live_samples(chunk)
        async with self._turn:
            if self._stream.has_ended:
                raise RuntimeError("the stream has ended; open another")
            if not self._resume_s:
                # A gateway that stops ends a stream with its last text.
                self.joined.take(await self._stream.send(samples, ends=ends), ends=True)
                return self.joined.answer()
            try:
                return await self._answered(samples, ends=ends)
            finally:
                self.joined.kept.drop_before(self.joined.kept_from)

    async def _answered(self, samples: NDArray[Any], *, ends: bool) -> Transcript:
        """Send a chunk [N] in the present stream, or in another one if it is lost."""
        begins = self.joined.kept.end
        self.joined.kept.add(samples)
        try:
            if not self._is_lost:
                try:
                    return await self._sent(samples, ends=ends)
                except ConchError as error:
                    if not self._is_loss(error):
                        raise
                    self._lose(error)
            return await self._go_on(samples, begins, ends=ends)
        except BaseException as error:
            if self._is_no_part(error):
                self.joined.kept.take_back(begins)
            raise

    def _is_no_part(self, error: BaseException) -> bool:
        """Return whether a chunk that has failed is no part of the stream."""
        if not isinstance(error, ConchError):  # it was cancelled
            return self._is_lost
        return not self._is_lost and (not self._had_server or _is_refusal(error))

    async def _sent(self, samples: NDArray[Any], *, ends: bool) -> Transcript:
        """Send samples in the present stream and return the answer; see `_hear`."""
        await self._hear(samples, ends=ends)
        if self._loss is not None:
            (error, lost_at), self._loss = self._loss, None
            audio_s = self.joined.start / self._sample_rate
            resumption = Resumption(error, audio_s, self._sent_again_s, self._now() - lost_at)
            self.resumptions = (*self.resumptions, resumption)
        return self.joined.answer()

    async def _hear(self, samples: NDArray[Any], *, ends: bool) -> None:
        """Send samples in the present stream, and keep the answer."""
        answer = await self._stream.send(samples, ends=ends)
        self._had_server = True
        self.joined.take(answer, ends=ends)
        if answer.is_final and not ends:
            raise ServerLostError(
                "the server has ended the stream: it is about to stop", had_request=False
            )

    def _is_loss(self, error: ConchError) -> bool:
        """Return whether an error means that the stream is gone, and another one may go on."""
        if not self._had_server:  # without a server before, none is lost
            return type(error) is ServerLostError
        return isinstance(error, ServerLostError | tensors.UnavailableError | SessionError)

    def _lose(self, error: ConchError) -> None:
        """Take note of a lost stream.

        Raise a PoisonError if MAX_LOSSES servers were lost, and the text did not get beyond the
        audio that the first of them had. Over a day a stream may lose more.
        """
        self._is_lost = True
        if self._had_server and blames(error) and self._stream not in self._losses:
            if self.joined.kept_from >= self._suspect_until:
                self._losses, self._suspect_until = [], self.joined.kept.end
            self._losses.append(self._stream)
        if len(self._losses) >= MAX_LOSSES:
            raise refusal(error)
        if self._loss is None:
            self._loss = error, self._now()
            self._on_loss(error)

    async def _go_on(self, samples: NDArray[Any], begins: int, *, ends: bool) -> Transcript:
        """Send a chunk in another stream, after the audio before it that has to be heard again."""
        if len(self._losses) >= MAX_LOSSES:
            raise refusal()
        give_up_at = self._now() + min(self._resume_s, self._timeout_s)
        pause_s = BACKOFF_S
        while True:
            try:
                await self._begin_again(begins)
                return await self._sent(samples, ends=ends)
            except _AGAIN as error:
                self._lose(error)
                retry_s = error.retry_after_s if isinstance(error, OverloadedError) else None
                wait_s = max(pause_s, float(retry_s or 0))
                if self._now() + wait_s >= give_up_at:
                    error_type = ServerLostError if self._losses else UnreachableError
                    raise error_type(f"{GAVE_UP}: {error}") from error
            await self._sleep(wait_s)
            pause_s = min(MAX_BACKOFF_S, 2 * pause_s)

    def _opened(self) -> ServerStream:
        common = self._common
        if self.joined.hears_again:  # the times of words show which ones; a server always has them
            common = replace(common, parameters={**common.parameters, "word_timestamps": True})
        return ServerStream(self._infer, common, self._sample_rate, is_kept=self._resume_s > 0)

    async def _begin_again(self, until: int) -> None:
        """Open another stream and send what has to be heard again before a sample."""
        before = self._stream
        is_gone = self._loss is None or isinstance(self._loss[0], SessionError)
        if before.has_started and not before.has_ended and not is_gone:
            self._abandoned.append(before)
        before.has_started = False
        # Only the connection may be lost: a stream would keep its place on the server.
        while self._abandoned:
            try:
                await self._abandoned[0].abandon(ABANDON_S)
            except (ServerLostError, OverloadedError, DeadlineError):
                break
            except ConchError:
                pass
            self._abandoned.popleft()
        if self._elsewhere is not None:
            self._infer = await self._elsewhere()
        self.joined.resume()
        self._stream = self._opened()
        missed = self.joined.kept.between(self.joined.start, until)
        self._sent_again_s = sum(map(len, missed)) / self._sample_rate
        for piece in _pieces(missed, round(PIECE_S * self._sample_rate)):
            await self._hear(piece, ends=False)
        self._is_lost = False


_AGAIN = (ServerLostError, OverloadedError, SessionError)
"""Errors of an attempt to go on after which another one may succeed."""


def _is_refusal(error: ConchError) -> bool:
    """Return whether the server has not taken a chunk, and its stream goes on."""
    if isinstance(error, SessionError | tensors.UnavailableError):
        return False
    return isinstance(error, InvalidRequestError | OverloadedError)


def _pieces(chunks: Sequence[NDArray[Any]], most: int) -> Iterator[NDArray[Any]]:
    """Yield chunks as pieces of one type and at most `most` samples; the first opens a stream."""
    for _, group in groupby(chunks, key=lambda chunk: chunk.dtype):
        samples = np.concatenate([*group])
        yield samples[:START_SAMPLES]
        for start in range(START_SAMPLES, len(samples), most):
            yield samples[start : start + most]
