"""Second passes: recognise live utterances again by the offline path, during later chunks."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from conch.audio.segmentation import Span
from conch.recognition.live.scheduling import PassedStream, Rank
from conch.recognition.metrics import PASSES
from conch.recognition.offline.recording import text_of
from conch.recognition.offline.recovery import recognize_complete
from conch.recognition.speech import SpeechSegment, known_text
from conch.recognition.text.steps import with_text_steps_if_possible
from conch.wire.errors import OverloadedError, public_error
from conch.wire.joining import num_words
from conch.wire.result import Segment

LATE_S = 1.28
"""Wait for a place that counts as late by load, in seconds."""
PATIENCE_S = 10.0
"""Longest time that a second pass waits for its place, in seconds."""


@dataclass(slots=True)
class _Prepared:
    span: Span
    result: asyncio.Task[Segment]
    has_started: bool = False


class SecondPasses:
    """The second passes of one live stream that are in flight, or done and not taken yet."""

    def __init__(self, stream: PassedStream) -> None:
        # Words in any case: a pass that is begun in a pause shows them before it counts.
        self._options = replace(stream.options, word_timestamps=True)
        self._keeps_words = stream.options.word_timestamps
        self._calls, self._shared, self._is_ahead = stream.calls, stream.shared, stream.is_ahead
        self._config = stream.config
        self._prepared: _Prepared | None = None
        self._tasks: dict[int, asyncio.Task[Segment]] = {}
        self._before_steps: set[asyncio.Task[Segment]] = set()
        """The passes whose text steps are yet to come."""
        self._latest: asyncio.Task[Segment] | None = None

    @property
    def first(self) -> int | None:
        """Index of the first utterance whose text may still change, or None."""
        return min(self._tasks, default=None)

    def is_prepared(self, span: Span) -> bool:
        """Return whether the second pass of this audio was begun, `Span` in samples."""
        return self._prepared is not None and self._prepared.span == span

    def prepare(self, span: Span, speech: SpeechSegment) -> asyncio.Task[Segment]:
        """Begin the second pass of an utterance that may be over, in place of an earlier one.

        `span` is its audio if the speaker does not go on, in samples.
        """
        self._drop_prepared()
        before = text_of(self._latest)

        def has_started() -> None:
            prepared.has_started = True

        result = asyncio.create_task(
            self._recognized(speech, before, Rank.ROLLING, PATIENCE_S, has_started)
        )
        self._prepared = prepared = _Prepared(span, result)
        return result

    async def begin(
        self, segment: Segment, span: Span, speech: SpeechSegment, *, is_punctuated: bool
    ) -> None:
        """Begin the second pass of an utterance, or go on with the one that was prepared.

        While `most` are in flight, wait before it if the stream is ahead, or else leave it out.
        """
        result, most = self._take_prepared(span), self._config.max_second_passes
        while result is None:
            busy = [task for task in self._tasks.values() if not task.done()]
            if len(busy) >= most and not self._is_ahead():
                result = asyncio.create_task(_left_out(most))
            elif len(busy) >= most:
                await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED)
            else:
                before = text_of(self._latest)
                patience_s = None if self._waits else PATIENCE_S
                result = asyncio.create_task(
                    self._recognized(speech, before, Rank.SECOND, patience_s)
                )
        self._latest = passed = asyncio.create_task(self._pass(segment, result))
        if self._options.has_text_steps:
            self._before_steps.add(passed)
            passed.add_done_callback(self._before_steps.discard)
            passed = asyncio.create_task(self._with_steps(passed, is_punctuated=is_punctuated))
        self._tasks[segment.index] = passed
        if result.done():  # so that the answer to this chunk has its text
            await asyncio.wait((passed,))

    async def finish(self) -> None:
        await asyncio.gather(*self._tasks.values())

    def take_done(self) -> Sequence[Segment]:
        """Return the utterances whose second pass is done, and remove them."""
        done = [index for index, task in self._tasks.items() if task.done()]
        return [self._tasks.pop(index).result() for index in done]

    def cancel(self) -> None:
        self._drop_prepared()
        for task in (*self._tasks.values(), *self._before_steps):
            task.cancel()

    @property
    def _waits(self) -> bool:
        """Whether a second pass is made in any case, however late."""
        return self._is_ahead() or not self._options.adaptive

    def _drop_prepared(self) -> None:
        if self._prepared:
            self._prepared.result.cancel()
            self._prepared = None

    def _take_prepared(self, span: Span) -> asyncio.Task[Segment] | None:
        """Return the pass that was prepared, unless a new one would have its text sooner."""
        prepared = self._prepared
        if prepared and prepared.span == span and prepared.has_started:
            self._prepared = None
            return prepared.result
        self._drop_prepared()
        return None

    async def _recognized(
        self,
        speech: SpeechSegment,
        before: Callable[[], Awaitable[str]],
        rank: Rank,
        patience_s: float | None,
        has_started: Callable[[], None] = lambda: None,
    ) -> Segment:
        is_ahead = self._is_ahead()
        if self._options.lm_context:
            # With a place it must not wait for another pass, which may have none.
            speech = replace(speech, said_before=known_text(await before()))
        due = self._shared.clock()

        async def recognized() -> Segment:
            has_started()
            if not is_ahead:
                now = self._shared.clock()
                self._shared.load.pass_took(now - due, LATE_S, now)
            return await recognize_complete(speech, self._options, self._calls)

        return await self._shared.queue.run(
            recognized, due=due, rank=Rank.FILE if is_ahead else rank, patience_s=patience_s
        )

    async def _pass(self, segment: Segment, passed: asyncio.Task[Segment]) -> Segment:
        """Return the segment with the text of the offline path, or unchanged with the error."""
        try:
            again = await passed
        except asyncio.CancelledError:
            passed.cancel()
            raise
        except Exception as failure:
            outcome = "skipped" if isinstance(failure, OverloadedError) else "failed"
            self._calls.count(PASSES, kind="second", outcome=outcome)
            error = public_error(failure)
            return replace(segment, error=f"no second pass: {error}", error_code=error.code)
        if again.unrecognised and self._is_shorter(again, segment):
            self._calls.count(PASSES, kind="second", outcome="refused")
            return replace(segment, error="no second pass: it left out what the first one heard")
        self._calls.count(PASSES, kind="second", outcome="made")
        own = {name: getattr(segment, name) for name in ("start", "end", "index", "endpoint")}
        words = again.words if self._keeps_words else ()
        return replace(again, words=words, passes=2, **own)

    def _is_shorter(self, again: Segment, segment: Segment) -> bool:
        language = again.language or self._options.language
        if language not in ("", "auto", self._config.first_pass_language):
            # The first one took another language for its own, and wrote any words.
            return False
        return num_words(again.text) < num_words(segment.text)

    async def _with_steps(self, passed: asyncio.Task[Segment], *, is_punctuated: bool) -> Segment:
        """Return a segment with the final text, of the second pass or else of the first."""
        segment = await passed
        if segment.passes == 2:
            is_punctuated = self._options.writes_punctuation
        return await with_text_steps_if_possible(
            segment, self._options, self._calls, is_punctuated=is_punctuated
        )


async def _left_out(most: int) -> Segment:
    raise OverloadedError(f"{most} of this stream wait already")
