"""Second passes: recognise live utterances again by the offline path, beside later chunks."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from conch.orchestrator.calls import Calls
from conch.orchestrator.covered import recognize_covered
from conch.orchestrator.metrics import PASSES
from conch.orchestrator.offline import text_of
from conch.orchestrator.pass_queue import SharedPasses
from conch.orchestrator.speech import SpeechSegment
from conch.wire.errors import OverloadedError, public_error
from conch.wire.options import RecognitionOptions
from conch.wire.result import Segment

Said = Callable[[], Awaitable[str]]

PROMPT_S = 2.0
"""Time of a second pass that counts as late by load, in seconds; alone it takes a quarter of it."""
PATIENCE_S = 10.0
"""Longest time that a second pass waits for its place, in seconds."""


class SecondPasses:
    """The second passes of one live stream that are in flight, or done and not taken yet."""

    def __init__(
        self,
        options: RecognitionOptions,
        calls: Calls,
        shared: SharedPasses,
        most: int,
        can_wait: Callable[[], bool],
    ) -> None:
        """Start with no second pass.

        Args:
            options: Options of the stream.
            calls: Calls that may outlive the request of a chunk.
            shared: What the passes of all streams share.
            most: Largest number in flight at once.
            can_wait: Returns whether nobody waits for the next chunk: the stream is ahead of its
                speaker.
        """
        # Words in any case: a pass that begins in a pause shows them before it counts.
        self._options = replace(options, word_timestamps=True)
        self._keeps_words = options.word_timestamps
        self._calls, self._shared, self._most = calls, shared, most
        self._can_wait = can_wait
        self._tasks: dict[int, asyncio.Task[Segment]] = {}
        self._latest: asyncio.Task[Segment] | None = None
        self._recognizing: set[asyncio.Task[Segment]] = set()
        """Those under way, also before their utterance has ended."""

    @property
    def first(self) -> int | None:
        """Index of the first utterance whose text may still change, or None."""
        return min(self._tasks, default=None)

    def early(self, speech: SpeechSegment) -> asyncio.Task[Segment]:
        """Begin a second pass before its utterance has ended, and return it.

        Args:
            speech: The audio that it will have if the speaker does not go on.
        """
        task = asyncio.create_task(self._recognized(speech, text_of(self._latest)))
        self._recognizing.add(task)
        task.add_done_callback(self._recognizing.discard)
        return task

    async def begin(
        self,
        segment: Segment,
        speech: SpeechSegment,
        early: asyncio.Task[Segment] | None,
    ) -> None:
        """Begin a second pass.

        While `most` are in flight, wait before it, or leave it out if the stream cannot wait. One
        that was begun before and is done counts in any case.

        Args:
            segment: The utterance with the text of its first pass.
            speech: Its audio.
            early: Its second pass, if it was begun before.
        """
        while len(busy := [task for task in self._tasks.values() if not task.done()]) >= self._most:
            if early and early.done():
                break
            if not self._can_wait():
                if early:
                    early.cancel()
                early = asyncio.create_task(_left_out(self._most))
                break
            awaited = [*busy, early] if early else busy
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        if early is None:
            early = self.early(speech)
        self._latest = asyncio.create_task(self._pass(segment, early))
        self._tasks[segment.index] = self._latest
        if early.done():  # so that the answer to this chunk has its text
            await asyncio.wait((self._latest,))

    async def finish(self) -> None:
        """Wait for all second passes."""
        await asyncio.gather(*self._tasks.values())

    def take_done(self) -> Sequence[Segment]:
        """Return the utterances whose second pass is done, and remove them."""
        done = [index for index, task in self._tasks.items() if task.done()]
        return [self._tasks.pop(index).result() for index in done]

    def cancel(self) -> None:
        """Cancel all second passes."""
        for task in (*self._tasks.values(), *self._recognizing):
            task.cancel()

    async def _recognized(self, speech: SpeechSegment, before: Said) -> Segment:
        speech = replace(speech, said_before=before)
        can_wait, due = self._can_wait(), time.monotonic()
        found = await self._shared.queue.run(
            lambda: recognize_covered(speech, self._options, self._calls),
            due=due,
            is_second=True,
            patience_s=None if can_wait else PATIENCE_S,
        )
        if not can_wait:
            now = time.monotonic()
            self._shared.load.pass_took(now - due, PROMPT_S, now)
        return found

    async def _pass(self, segment: Segment, passed: asyncio.Task[Segment]) -> Segment:
        """Return the segment with the text of the offline path, or unchanged with the error."""
        try:
            again = await passed
        except Exception as failure:
            outcome = "skipped" if isinstance(failure, OverloadedError) else "failed"
            self._calls.count(PASSES, kind="second", outcome=outcome)
            return replace(segment, error=f"no second pass: {public_error(failure)}")
        if again.unrecognised and _is_shorter(again.text, segment.text):
            self._calls.count(PASSES, kind="second", outcome="refused")
            return replace(segment, error="no second pass: it left out what the first one heard")
        self._calls.count(PASSES, kind="second", outcome="made")
        return replace(
            segment,
            nbest=again.nbest,
            words=again.words if self._keeps_words else (),
            unrecognised=again.unrecognised,
            passes=2,
        )


async def _left_out(most: int) -> Segment:
    raise OverloadedError(f"{most} of this stream wait already")


def _is_shorter(text: str, other: str) -> bool:
    return len(text.split()) < len(other.split())
