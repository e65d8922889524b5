"""Second passes: recognise live utterances again by the offline path, beside later chunks."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from conch.orchestrator.calls import Calls
from conch.orchestrator.offline import recognize_asked, text_of
from conch.orchestrator.speech import SpeechSegment
from conch.wire.errors import public_error
from conch.wire.options import RecognitionOptions
from conch.wire.result import Segment


class SecondPasses:
    """The second passes of one live stream that are in flight, or done and not taken yet."""

    def __init__(self, options: RecognitionOptions, calls: Calls, most: int) -> None:
        """Start with no second pass.

        Args:
            options: Options of the stream.
            calls: Calls that may outlive the request of a chunk.
            most: Largest number in flight at once.
        """
        self._options, self._calls, self._most = options, calls, most
        self._tasks: dict[int, asyncio.Task[Segment]] = {}
        self._latest: asyncio.Task[Segment] | None = None

    @property
    def first(self) -> int | None:
        """Index of the first utterance whose text may still change, or None."""
        return min(self._tasks, default=None)

    async def begin(self, segment: Segment, speech: SpeechSegment) -> None:
        """Begin a second pass, and wait before it while `most` are in flight.

        Args:
            segment: The utterance with the text of its first pass.
            speech: Its audio.
        """
        speech = replace(speech, said_before=text_of(self._latest))
        while len(busy := [task for task in self._tasks.values() if not task.done()]) >= self._most:
            await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED)
        self._latest = asyncio.create_task(self._pass(segment, speech))
        self._tasks[segment.index] = self._latest

    async def finish(self) -> None:
        """Wait for all second passes."""
        await asyncio.gather(*self._tasks.values())

    def take_done(self) -> Sequence[Segment]:
        """Return the utterances whose second pass is done, and remove them."""
        done = [index for index, task in self._tasks.items() if task.done()]
        return [self._tasks.pop(index).result() for index in done]

    def cancel(self) -> None:
        """Cancel all second passes."""
        for task in self._tasks.values():
            task.cancel()

    async def _pass(self, segment: Segment, speech: SpeechSegment) -> Segment:
        """Return the segment with the text of the offline path, or unchanged with the error."""
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
