"""Live streams: send audio in chunks while it is spoken, and get the text so far."""

import contextlib
import secrets
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conch.client import tensors
from conch.client.triton_messages import Result
from conch.wire.errors import ConchError
from conch.wire.nbest import joined
from conch.wire.options import RecognitionOptions
from conch.wire.result import Segment, Transcript
from conch.wire.stream_place import StreamPlace

NOTHING = np.zeros(0, np.float32)
"""The last chunk of a stream whose samples were all sent."""


class _Chunks:
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
    ) -> None:
        parsed = RecognitionOptions.parse(options, live=True)
        self._nbest = parsed.nbest
        self._told: dict[int, Segment] | None = {} if keep_segments else None
        """Utterances of the answers so far, by index."""
        self._sample_rate, self._timeout_s, self._model = sample_rate, timeout_s, model
        self._options = {name: getattr(parsed, name) for name in options}
        self._request_id = request_id
        self._id, self._session = uuid.uuid4().hex, secrets.token_hex(8)
        self.has_started = self.has_ended = False

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
        return tensors.Request(
            model=self._model,
            inputs=inputs,
            parameters={
                "session": self._session,
                **(self._options if starts else {}),
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
        segments = tuple(self._told[index] for index in sorted(self._told))
        nbest = joined([segment.nbest for segment in segments], self._nbest)
        return replace(answer, segments=segments, nbest=nbest, stable=nbest[0].text)

    @contextlib.contextmanager
    def unless_refused(self, request: tensors.Request) -> Iterator[None]:
        """Allow START or END to be sent again if the server refuses it."""
        try:
            yield
        except ConchError:
            assert request.place is not None
            self.has_started &= not request.place.starts
            self.has_ended &= not request.place.ends
            raise


class LiveStream:
    """Send live audio chunk by chunk; `Client.live` returns one.

    Leaving its `with` block before `finish` ends the stream on the server, without a last text.
    """

    def __init__(self, infer: Callable[[tensors.Request], Result], **settings: Any) -> None:
        self._infer, self._chunks = infer, _Chunks(**settings)

    def __enter__(self) -> "LiveStream":
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._chunks.has_started and not self._chunks.has_ended:
            with contextlib.suppress(ConchError):
                self._infer(self._chunks.request(NOTHING, ends=True, abandons=True))

    def send(self, chunk: NDArray[Any]) -> Transcript:
        """Send the next samples and return what is new.

        The `segments` of the transcript are the utterances that ended, or got their second pass,
        since the last answer. `text` begins with the first utterance that is one of them or that
        may still change, with `repeat_text` up to `history_s` before it. `stable` is the beginning
        of `text` that no longer changes.

        Args:
            chunk: Mono samples [N] of any number: floats in [-1, 1], int32, or int16 in half the
                bytes.

        Raises:
            AudioError: the chunk is not a waveform. The stream stays open.
            SessionError: the stream has expired, or an error has ended it.
            RuntimeError: `finish` was called before.
            ConchError: the errors of `Client.transcribe`.
        """
        return self._answer(chunk, ends=False)

    def finish(self, chunk: NDArray[Any] | None = None) -> Transcript:
        """Send the last samples, if there are any, and return the final transcript.

        It holds all utterances of the stream. Those from before `history_s` are kept here; without
        `keep_segments` they are left out.

        Args:
            chunk: The last samples, as of `send`.

        Raises:
            ConchError: the errors of `send`.
            RuntimeError: `finish` was called before.
        """
        return self._answer(NOTHING if chunk is None else chunk, ends=True)

    def _answer(self, chunk: NDArray[Any], *, ends: bool) -> Transcript:
        request = self._chunks.request(chunk, ends=ends)
        with self._chunks.unless_refused(request):
            return self._chunks.completed(tensors.transcripts(self._infer(request), 1)[0])


class AsyncLiveStream:
    """Send live audio chunk by chunk and await the answers; `AsyncClient.live` returns one."""

    def __init__(
        self, infer: Callable[[tensors.Request], Awaitable[Result]], **settings: Any
    ) -> None:
        self._infer, self._chunks = infer, _Chunks(**settings)

    async def __aenter__(self) -> "AsyncLiveStream":
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._chunks.has_started and not self._chunks.has_ended:
            with contextlib.suppress(ConchError):
                await self._infer(self._chunks.request(NOTHING, ends=True, abandons=True))

    async def send(self, chunk: NDArray[Any]) -> Transcript:
        """Send the next samples; see `LiveStream.send`. Chunks sent at once keep their order."""
        return await self._answer(chunk, ends=False)

    async def finish(self, chunk: NDArray[Any] | None = None) -> Transcript:
        """Send the last samples and return the final transcript; see `LiveStream.finish`."""
        return await self._answer(NOTHING if chunk is None else chunk, ends=True)

    async def _answer(self, chunk: NDArray[Any], *, ends: bool) -> Transcript:
        request = self._chunks.request(chunk, ends=ends)
        with self._chunks.unless_refused(request):
            return self._chunks.completed(tensors.transcripts(await self._infer(request), 1)[0])
