"""Second passes of a stream: its utterances by the offline path, while later chunks are heard."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from conch.orchestrator.calls import Calls
from conch.orchestrator.offline import recognize_asked
from conch.orchestrator.segment import SpeechSegment
from conch.wire.errors import public_error
from conch.wire.options import RecognitionOptions
from conch.wire.result import Segment


class SecondPasses:
    """Those of one stream that are under way, or done and not taken yet."""

    def __init__(self, options: RecognitionOptions, calls: Calls, most: int) -> None:
        """Start with no second pass.

        Args:
            options: of the stream.
            calls: that outlive the chunk that causes a second pass.
            most: under way at once; one more waits, and the stream with it.
        """
        self._options, self._calls, self._most = options, calls, most
        self._tasks: dict[int, asyncio.Task[Segment]] = {}

    @property
    def first(self) -> int | None:
        """The first utterance whose text may still change."""
        return min(self._tasks, default=None)

    async def begin(self, segment: Segment, speech: SpeechSegment) -> None:
        """Begin one as soon as there is room.

        Args:
            segment: the utterance, by its first pass.
            speech: its audio.
        """
        while len(busy := [task for task in self._tasks.values() if not task.done()]) >= self._most:
            await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED)
        self._tasks[segment.index] = asyncio.create_task(self._pass(segment, speech))

    async def finish(self) -> None:
        """Wait for all."""
        await asyncio.gather(*self._tasks.values())

    def take_done(self) -> Sequence[Segment]:
        """Return the utterances whose second pass is done, each once."""
        done = [index for index, task in self._tasks.items() if task.done()]
        return [self._tasks.pop(index).result() for index in done]

    def cancel(self) -> None:
        """Give them up."""
        for task in self._tasks.values():
            task.cancel()

    async def _pass(self, segment: Segment, speech: SpeechSegment) -> Segment:
        """Return the segment with the offline path's text; with its own, where that path fails."""
        try:
            again = await recognize_asked(speech, self._options, self._calls)
        except Exception as failure:
            return replace(segment, error=f"no second pass: {public_error(failure)}")
        if again.unrecognised and _is_shorter(again.text, segment.text):
            return replace(segment, error="no second pass: it left out what the first one heard")
        return replace(
            segment,
            nbest=again.nbest,
            words=again.words,
            unrecognised=again.unrecognised,
            passes=2,
        )


def _is_shorter(text: str, other: str) -> bool:
    return len(text.split()) < len(other.split())
