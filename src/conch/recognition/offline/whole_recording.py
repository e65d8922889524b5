"""The hooks over a whole recording, which run when all of its segments are known."""

import asyncio
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from conch.bls.calls import Calls, together
from conch.recognition.hooks import (
    AfterRecordingResult,
    InParts,
    RecognisedSpeech,
    after_recording,
    in_parts,
)
from conch.recognition.speech import SpeechSegment
from conch.wire.options import RecognitionOptions
from conch.wire.result import Segment, Turn

Listen = Callable[[SpeechSegment], Coroutine[None, None, None]]


class WholeRecording:
    """Keeps what the hooks hear in a recording's segments; without hooks, nothing."""

    def __init__(self, options: RecognitionOptions, calls: Calls) -> None:
        self._options, self._calls = options, calls
        self._hooks = after_recording(options)
        self.heard: dict[int, list[list[Any]]] = defaultdict(list)
        """By channel, in order of time: what each hook has heard in a segment."""
        self._parts: Mapping[int, InParts] | None = None
        self._num_parts: Counter[int] = Counter()
        """By channel: segments that `part` has had."""

    def next(self, channel: int) -> Listen | None:
        """Return what hears a channel's next segment; None without hooks."""
        if not self._hooks:
            return None
        heard: list[Any] = [None] * len(self._hooks)
        self.heard[channel].append(heard)

        async def listen(speech: SpeechSegment) -> None:
            places = [place for place, (_, hear) in enumerate(self._hooks) if hear]
            jobs = (hear(speech, self._options, self._calls) for _, hear in self._hooks if hear)
            for place, found in zip(places, await together(jobs), strict=True):
                heard[place] = found

        return listen

    async def part(self, segment: Segment) -> tuple[Segment, Sequence[Turn]]:
        """Return the next segment of its channel, and its turns, as far as is known so far."""
        turns: Sequence[Turn] = ()
        place = self._num_parts[segment.channel]
        self._num_parts[segment.channel] += 1
        if self._parts is None:
            self._parts = in_parts(self._options)
        for number, work in self._parts.items():
            heard = self.heard[segment.channel][place][number]
            found = await asyncio.to_thread(work, RecognisedSpeech(segment, heard))
            (segment,), turns = found.segments, found.turns
        return segment, turns

    async def finished(self, segments: Sequence[Segment]) -> AfterRecordingResult:
        """Return the segments, in order of time, as the hooks leave them, and their findings."""
        result = AfterRecordingResult(segments)
        starts: dict[int, list[float]] = defaultdict(list)
        for segment in segments:
            starts[segment.channel].append(segment.start)

        def heard_in(segment: Segment) -> list[Any]:
            # It may be a part of one that was heard as a whole.
            place = bisect_right(starts[segment.channel], segment.start) - 1
            return self.heard[segment.channel][place]

        for number, (hook, _) in enumerate(self._hooks):
            recognised = [
                RecognisedSpeech(item, heard_in(item)[number]) for item in result.segments
            ]
            after = await hook(recognised, self._options, self._calls)
            result = replace(
                after,
                extra={**result.extra, **after.extra},
                turns=after.turns or result.turns,
                embeddings=after.embeddings or result.embeddings,
            )
        return result
