"""Live streams: send audio in chunks while it is spoken, and get the text so far."""

import asyncio
import contextlib
from asyncio import sleep as async_sleep
from collections.abc import Awaitable, Callable
from time import sleep
from typing import Any

from numpy.typing import NDArray

from conch.client import tensors
from conch.client.live_chunks import NOTHING, LiveChunks, Pause, Resumption, Steps, Turn
from conch.client.triton_messages import Result
from conch.wire.errors import ConchError
from conch.wire.result import Transcript


class LiveStream:
    """Send live audio chunk by chunk; `Client.live` returns one.

    Leaving its `with` block before `finish` ends the stream on the server, without a last text.
    """

    def __init__(self, infer: Callable[[tensors.Request], Result], **settings: Any) -> None:
        self._infer, self._chunks = infer, LiveChunks(**settings)

    def __enter__(self) -> "LiveStream":
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._chunks.is_open:
            with contextlib.suppress(ConchError):
                self._infer(self._chunks.request(NOTHING, ends=True, abandons=True))

    @property
    def resumptions(self) -> tuple[Resumption, ...]:
        """The losses of a server after which the stream went on, in order."""
        return self._chunks.resumptions

    def send(self, chunk: NDArray[Any]) -> Transcript:
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
            ServerLostError: the server was lost, and none was found within `resume_s`, or
                OverloadedError: none that takes the stream. The chunk counts as sent: the next one
                looks for a server again.
            SessionError: without `resume_s`: the stream has expired, or an error has ended it.
            RuntimeError: `finish` was called before.
            ConchError: the errors of `Client.transcribe`. After one that ended the stream, the next
                chunk goes on in another.
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
        steps: Steps = self._chunks.steps(chunk, ends=ends)
        result: Result = None
        error: ConchError | None = None
        with contextlib.closing(steps):
            while True:
                try:
                    step = steps.send(result) if error is None else steps.throw(error)
                except StopIteration as end:
                    answer: Transcript = end.value
                    return answer
                result = error = None
                if isinstance(step, tensors.Request):
                    try:
                        result = self._infer(step)
                    except ConchError as failure:
                        error = failure
                elif isinstance(step, Pause):
                    sleep(step.seconds)


class AsyncLiveStream:
    """Send live audio chunk by chunk and await the answers; `AsyncClient.live` returns one."""

    def __init__(
        self, infer: Callable[[tensors.Request], Awaitable[Result]], **settings: Any
    ) -> None:
        self._infer, self._chunks = infer, LiveChunks(**settings)
        self._turns: set[asyncio.Future[None]] = set()
        """Chunks that wait for those before them."""

    async def __aenter__(self) -> "AsyncLiveStream":
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._chunks.is_open:
            with contextlib.suppress(ConchError):
                await self._infer(self._chunks.request(NOTHING, ends=True, abandons=True))

    @property
    def resumptions(self) -> tuple[Resumption, ...]:
        """The losses of a server after which the stream went on; see `LiveStream.resumptions`."""
        return self._chunks.resumptions

    async def send(self, chunk: NDArray[Any]) -> Transcript:
        """Send the next samples; see `LiveStream.send`. Chunks sent at once keep their order."""
        return await self._answer(chunk, ends=False)

    async def finish(self, chunk: NDArray[Any] | None = None) -> Transcript:
        """Send the last samples and return the final transcript; see `LiveStream.finish`."""
        return await self._answer(NOTHING if chunk is None else chunk, ends=True)

    async def _answer(self, chunk: NDArray[Any], *, ends: bool) -> Transcript:
        steps: Steps = self._chunks.steps(chunk, ends=ends)
        result: Result = None
        error: ConchError | None = None
        try:
            while True:
                try:
                    step = steps.send(result) if error is None else steps.throw(error)
                except StopIteration as end:
                    answer: Transcript = end.value
                    return answer
                result = error = None
                if isinstance(step, tensors.Request):
                    try:
                        result = await self._infer(step)
                    except ConchError as failure:
                        error = failure
                elif isinstance(step, Pause):
                    await async_sleep(step.seconds)
                else:
                    await self._turn_of(step)
        finally:
            steps.close()
            for turn in self._turns:
                if not turn.done():
                    turn.set_result(None)

    async def _turn_of(self, turn: Turn) -> None:
        """Wait until the chunks before this one are answered."""
        while min(self._chunks.waiting) != turn.number:
            waiting = asyncio.get_running_loop().create_future()
            self._turns.add(waiting)
            try:
                await waiting
            finally:
                self._turns.discard(waiting)
