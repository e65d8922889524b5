"""What a live stream sends for each chunk, and how it goes on after its server is lost.

Nothing here sends or waits: `LiveChunks.steps` tells what to do, so that plain code and asyncio
share it. Which audio is sent again, and how the texts are joined, is in `conch.client.resumption`.
"""

import contextlib
import secrets
import time
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from conch.client import tensors
from conch.client.kept_audio import KeptAudio
from conch.client.poison import MAX_LOSSES, blames, refusal
from conch.client.resumption import LOST, Continuation
from conch.client.triton_messages import Result
from conch.wire.errors import (
    ConchError,
    DeadlineError,
    InvalidRequestError,
    OptionError,
    OverloadedError,
    ServerLostError,
    SessionError,
)
from conch.wire.nbest import joined
from conch.wire.options import RecognitionOptions
from conch.wire.result import Segment, Transcript
from conch.wire.stream_place import StreamPlace

NOTHING = np.zeros(0, np.float32)
"""The last chunk of a stream whose samples were all sent."""
RESUME_S = 60.0
"""Seconds to look for a server after one was lost: `conch serve` needs about 10 to replace it."""
START_SAMPLES = 1600
"""Most samples of the chunk that opens another stream. A proxy without a server answers so little,
and breaks off the connection of who is still sending."""
BACKOFF_S, MAX_BACKOFF_S = 0.1, 2.0
"""First and longest pause between two attempts, in seconds; each is twice the one before."""
PIECE_S = 1.0
"""Longest chunk of audio that is sent again, in seconds: each has to meet `deadline_ms`."""
ABANDON_S = 5.0
"""Seconds to tell a server that a stream has gone on elsewhere."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """A server was lost, and the stream went on in another one."""

    error: ConchError
    """What the loss was noticed by."""
    audio_s: float
    """Where the new stream begins: seconds from the start of the first one."""
    sent_again_s: float
    """Seconds of audio that were sent again."""
    waited_s: float
    """Seconds until a server answered."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Wait until all chunks before this one are answered."""

    number: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait before the next attempt."""

    seconds: float


Step: TypeAlias = tensors.Request | Turn | Pause
"""What to do; a request gives its RESULT, or the error is thrown in."""
Steps: TypeAlias = Generator[Step, Result, Transcript]


class LiveChunks:
    """Builds the requests of one live stream, and completes its last answer."""

    def __init__(
        self,
        *,
        sample_rate: int,
        timeout_s: float,
        model: str,
        options: Mapping[str, tensors.OptionValue],
        request_id: str = "",
        keep_segments: bool = True,
        resume_s: float = 0.0,
        on_loss: Callable[[ConchError], None] = lambda error: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin before the first chunk; see `Client.live`.

        Args:
            sample_rate: Hz of the chunks.
            timeout_s: Seconds of each request.
            model: Name of the entry point.
            options: Options by name.
            request_id: Id of every chunk.
            keep_segments: Whether the last answer holds all utterances.
            resume_s: Seconds to look for a server after one was lost; 0 for none.
            on_loss: Is told by what error a server was lost, before another one is looked for.
            now: Clock of the attempts, in seconds.

        Raises:
            OptionError: an option is unknown, mistyped or out of range.
        """
        parsed = RecognitionOptions.parse(options, live=True)
        if not resume_s >= 0:
            raise OptionError(f"resume_s is a number of seconds from 0 up; sent: {resume_s!r}")
        self._nbest = parsed.nbest
        self._told: dict[int, Segment] | None = {} if keep_segments else None
        """Utterances of the answers so far, by index."""
        self._sample_rate, self._timeout_s, self._model = sample_rate, timeout_s, model
        self._options = {name: getattr(parsed, name) for name in options}
        self._request_id = request_id
        self._resume_s, self._on_loss, self._now = resume_s, on_loss, now
        self._begin()
        self._kept = KeptAudio(sample_rate)
        self._continuation = Continuation(parsed, sample_rate)
        self._has_answer = False
        self._is_lost = False
        """Whether the server's stream is gone."""
        self._loss: tuple[ConchError, float] | None = None
        """By what and when that was noticed, until another stream has answered."""
        self._stream = 0
        """Number of the server's stream."""
        self._losses: list[int] = []
        """Streams whose server was lost with the same audio."""
        self._suspect_until = 0
        """Sample behind the audio that the first of them had."""
        self._sent_again_s = 0.0
        """Seconds of audio that the present stream has heard again."""
        self._abandoned: deque[tensors.Request] = deque()
        """What ends the streams before, should their server still be there."""
        self._num_chunks = 0
        self.waiting: dict[int, int] = {}
        """Chunks without an answer by their number, and the stream that each was sent in."""
        self.resumptions: tuple[Resumption, ...] = ()

    def _begin(self) -> None:
        self._id, self._session = uuid.uuid4().hex, secrets.token_hex(8)
        self.has_started = self.has_ended = False

    @property
    def is_open(self) -> bool:
        """Whether a server keeps the stream, as far as is known."""
        return self.has_started and not self.has_ended and not self._is_lost

    def request(
        self, chunk: NDArray[Any], *, ends: bool, abandons: bool = False
    ) -> tensors.Request:
        """Return the request of the next chunk.

        Args:
            chunk: Mono samples [N].
            ends: Whether it is the last.
            abandons: Whether nobody reads the last text.

        Raises:
            AudioError: the chunk is not a waveform.
            RuntimeError: the last chunk was sent before.
        """
        if self.has_ended:
            raise RuntimeError("the stream has ended; open another")
        inputs = tensors.chunk_tensors(chunk, self._sample_rate)
        starts = not self.has_started
        self.has_started, self.has_ended = True, ends
        options = self._options
        if starts and self._stream:
            # Their times tell which words are heard again; a server has them in any case.
            options = {**options, "word_timestamps": True}
        return tensors.Request(
            model=self._model,
            inputs=inputs,
            parameters={
                "session": self._session,
                **(options if starts else {}),
                **({"abandon": True} if abandons else {}),
            },
            timeout_s=self._timeout_s,
            place=StreamPlace(self._id, starts, ends),
            request_id=self._request_id,
        )

    def completed(self, answer: Transcript) -> Transcript:
        """Return the next answer; the last one with all utterances, if they are kept.

        A server tells again what it keeps of a stream, and each utterance when it ends.
        """
        if self._told is None:
            return answer
        self._told |= {segment.index: segment for segment in answer.segments}
        if not answer.is_final or len(self._told) == len(answer.segments):
            return answer
        kept = [self._told[index] for index in sorted(self._told)]
        # Of some that a server took with it nothing was firm; they are told anew.
        segments = tuple(item for item in kept if item.text or item.endpoint != LOST)
        nbest = joined([segment.nbest for segment in segments], self._nbest)
        return replace(answer, segments=segments, nbest=nbest, stable=nbest[0].text)

    @contextlib.contextmanager
    def unless_refused(self, request: tensors.Request) -> Iterator[None]:
        """Allow START or END to be sent again if the server refuses it."""
        try:
            yield
        except ConchError as error:
            assert request.place is not None
            # A stream whose START was lost on its way may be there.
            is_there = self._resume_s and type(error) is ServerLostError
            if request.place.starts and not is_there:
                self.has_started = False
            if request.place.ends:
                self.has_ended = False
            raise

    def steps(self, chunk: NDArray[Any], *, ends: bool) -> Steps:
        """Send a chunk: yield what to do, take what it gave, and return the answer.

        Args:
            chunk: Mono samples [N].
            ends: Whether it is the last.

        Raises:
            AudioError: the chunk is not a waveform.
            RuntimeError: the last chunk was sent before.
            ConchError: the server answers with an error, or none is found within `resume_s`.
        """
        if not self._resume_s:
            request = self.request(chunk, ends=ends)
            with self.unless_refused(request):
                return self.completed(_transcript((yield request)))
        if self.has_ended:
            raise RuntimeError("the stream has ended; open another")
        samples = tensors.live_samples(chunk)
        number, self._num_chunks = self._num_chunks, self._num_chunks + 1
        is_direct = not self._is_lost and all(
            stream == self._stream for stream in self.waiting.values()
        )
        self._kept.add(number, samples)
        self.waiting[number] = self._stream
        try:
            answer = yield from self._answered(number, samples, ends=ends, is_direct=is_direct)
        finally:
            del self.waiting[number]
            needed = min(self.waiting, default=self._num_chunks)
            self._kept.drop_before(self._continuation.kept_from, needed)
        return self.completed(answer)

    def _answered(
        self, number: int, samples: NDArray[Any], *, ends: bool, is_direct: bool
    ) -> Steps:
        """Send a chunk in the present stream, or in another one if it is lost.

        Args:
            number: Number of the chunk.
            samples: Its samples [N].
            ends: Whether it is the last.
            is_direct: Whether all chunks before it were sent in the present stream.
        """
        try:
            if is_direct:
                stream = self._stream
                try:
                    return (yield from self._sent(number, samples, ends=ends))
                except ConchError as error:
                    if not self._is_loss(error):
                        # What a server refuses, or never got, is not part of the stream.
                        if not self._has_answer or _is_refusal(error):
                            self._kept.remove(number)
                        raise
                    if stream == self._stream:
                        self._lose(error)
            yield Turn(number)
            return (yield from self._go_on(number, samples, ends=ends))
        except GeneratorExit:
            # Whoever gives up takes back what the present stream was not sent.
            if self._is_lost or self.waiting[number] != self._stream:
                self._kept.remove(number)
            raise

    def _sent(self, number: int, samples: NDArray[Any], *, ends: bool) -> Steps:
        """Send a chunk of this number in the present stream and return the answer.

        Raises:
            ServerLostError: see `_heard`.
            ConchError: the answer is an error.
        """
        yield from self._heard(number, samples, ends=ends)
        self._note()
        return self._continuation.tell()

    def _heard(
        self, number: int, samples: NDArray[Any], *, ends: bool
    ) -> Generator[Step, Result, None]:
        """Send samples for a chunk of this number; keep the answer to tell it.

        Raises:
            ServerLostError: the server has ended the stream, as it stops, or it was lost with a
                chunk before this one.
            ConchError: the answer is an error.
        """
        request = self.request(samples, ends=ends)
        before = self._stream, self._is_lost
        with self.unless_refused(request):
            answer = _transcript((yield request))
        if min(self.waiting) != number:
            yield Turn(number)
        if before != (self._stream, self._is_lost):
            raise ServerLostError(
                "the stream was lost with a chunk before this one", had_request=False
            )
        self._has_answer = True
        self._continuation.take(answer, ends=ends)
        if answer.is_final and not ends:
            raise ServerLostError(
                "the server has ended the stream: it is about to stop", had_request=False
            )

    def _is_loss(self, error: ConchError) -> bool:
        """Return whether an error means that the stream is gone, and another one may go on."""
        if not self._has_answer:  # who never had a server has not lost one
            return type(error) is ServerLostError
        return isinstance(error, ServerLostError | tensors.UnavailableError | SessionError)

    def _lose(self, error: ConchError) -> None:
        """Take note of a lost stream.

        Raises:
            PoisonError: MAX_LOSSES servers were lost, and the text did not get beyond the audio
                that the first of them had. Over a day a stream may lose more.
        """
        self._is_lost = True
        if self._has_answer and blames(error) and self._stream not in self._losses:
            if self._continuation.kept_from >= self._suspect_until:
                self._losses, self._suspect_until = [], self._kept.end
            self._losses.append(self._stream)
        if len(self._losses) >= MAX_LOSSES:
            raise refusal(error)
        if self._loss is None:
            self._loss = error, self._now()
            self._on_loss(error)

    def _go_on(self, number: int, samples: NDArray[Any], *, ends: bool) -> Steps:
        """Send a chunk in another stream, after the audio before it that has to be heard again."""
        give_up_at = self._now() + min(self._resume_s, self._timeout_s)
        pause_s = BACKOFF_S
        while True:
            try:
                if len(self._losses) >= MAX_LOSSES:
                    raise refusal()
                if self._is_lost:
                    yield from self._begin_again(number)
                self.waiting[number] = self._stream
                return (yield from self._sent(number, samples, ends=ends))
            except ConchError as error:
                if not isinstance(error, _AGAIN):
                    if not self._is_lost and _is_refusal(error):
                        self._kept.remove(number)
                    raise
                self._lose(error)
                told_s = error.retry_after_s if isinstance(error, OverloadedError) else None
                wait_s = max(pause_s, float(told_s or 0))
                if self._now() + wait_s >= give_up_at:
                    raise
            yield Pause(wait_s)
            pause_s = min(MAX_BACKOFF_S, 2 * pause_s)

    def _begin_again(self, number: int) -> Generator[Step, Result, None]:
        """Open another stream and send what has to be heard again before a chunk."""
        is_gone = self._loss is None or isinstance(self._loss[0], SessionError)
        if self.has_started and not self.has_ended and not is_gone:
            ending = self.request(NOTHING, ends=True, abandons=True)
            self._abandoned.append(replace(ending, timeout_s=min(ABANDON_S, self._timeout_s)))
        # Before anything is awaited: the caller may send chunks meanwhile.
        self._begin()
        # Only the connection may be lost: a stream would keep its place on the server.
        while self._abandoned:
            try:
                yield self._abandoned[0]
            except (ServerLostError, OverloadedError, DeadlineError):
                break
            except ConchError:
                pass
            self._abandoned.popleft()
        self._stream += 1
        self._continuation.resume(self._kept.start)
        before = self._kept.before(number, self._continuation.start)
        self._sent_again_s = sum(map(len, before)) / self._sample_rate
        for piece in _pieces(before, round(PIECE_S * self._sample_rate)):
            yield from self._heard(number, piece, ends=False)
        self._is_lost = False

    def _note(self) -> None:
        """Remember that another stream has answered."""
        if self._loss is None:
            return
        (error, lost_at), self._loss = self._loss, None
        audio_s = self._continuation.start / self._sample_rate
        resumption = Resumption(error, audio_s, self._sent_again_s, self._now() - lost_at)
        self.resumptions = (*self.resumptions, resumption)


_AGAIN = (ServerLostError, OverloadedError, SessionError)
"""Errors of an attempt to go on after which another one may succeed."""


def _is_refusal(error: ConchError) -> bool:
    """Return whether the server has not taken a chunk, and its stream goes on."""
    if isinstance(error, SessionError | tensors.UnavailableError):
        return False
    return isinstance(error, InvalidRequestError | OverloadedError)


def _pieces(chunks: Sequence[NDArray[Any]], most: int) -> Iterator[NDArray[Any]]:
    """Yield chunks of samples joined to pieces of one type, each of at most so many samples.

    The first piece opens a stream and is short.
    """
    held: list[NDArray[Any]] = []
    if chunks:
        yield chunks[0][:START_SAMPLES]
        chunks = [chunks[0][START_SAMPLES:], *chunks[1:]]
    for chunk in chunks:
        for start in range(0, len(chunk), most):
            part = chunk[start : start + most]
            is_full = held and sum(map(len, held)) + len(part) > most
            if is_full or (held and held[0].dtype != part.dtype):
                yield np.concatenate(held)
                held = []
            held.append(part)
    if held:
        yield np.concatenate(held)


def _transcript(result: Result) -> Transcript:
    return tensors.transcripts(result, 1)[0]
