"""The path of a recording: audio → VAD → segments, in flight at once → text, in order of time.

Meanwhile the hooks over the whole recording analyse each segment; `WholeRecording` keeps the
results.
"""

import asyncio
from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from conch.audio.blocks import AudioBlocks
from conch.audio.recording import Recording
from conch.audio.segmentation import (
    Segmenter,
    Span,
    frames_between,
    loudness,
    segment_rules,
    speech_likeness,
    state_of,
)
from conch.bls.call import TensorHandle
from conch.bls.calls import Calls, together
from conch.bls.concurrency import PART
from conch.component import SAMPLE_RATE, VAD_FRAME_SAMPLES, Array
from conch.recognition.hooks import (
    AfterRecordingResult,
    InParts,
    RecognisedSpeech,
    after_recording,
    in_parts,
    speech_finder,
)
from conch.recognition.offline.recovery import recognize_complete
from conch.recognition.speech import SpeechSegment
from conch.recognition.text.steps import with_text_steps
from conch.wire.options import RecognitionOptions
from conch.wire.result import Segment, Turn

Listen = Callable[[SpeechSegment], Coroutine[None, None, None]]


class WholeRecording:
    """Keeps the hooks' analyses of a recording's segments; without hooks, nothing."""

    def __init__(self, options: RecognitionOptions, calls: Calls) -> None:
        self._options, self._calls = options, calls
        self._hooks = after_recording(options)
        self.analyses: dict[int, list[list[Any]]] = defaultdict(list)
        """By channel, in order of time: the analysis of a segment by each hook."""
        self._parts: Mapping[int, InParts] | None = None
        self._num_parts: Counter[int] = Counter()
        """By channel: segments that `part` has had."""

    def next(self, channel: int) -> Listen | None:
        """Return the function that analyses a channel's next segment; None without hooks."""
        if not self._hooks:
            return None
        analyses: list[Any] = [None] * len(self._hooks)
        self.analyses[channel].append(analyses)

        async def listen(speech: SpeechSegment) -> None:
            indices = [index for index, (_, hear) in enumerate(self._hooks) if hear]
            jobs = (hear(speech, self._options, self._calls) for _, hear in self._hooks if hear)
            for index, analysis in zip(indices, await together(jobs), strict=True):
                analyses[index] = analysis

        return listen

    async def part(self, segment: Segment) -> tuple[Segment, Sequence[Turn]]:
        """Return the next segment of its channel, and its turns, as far as is known so far."""
        turns: Sequence[Turn] = ()
        index = self._num_parts[segment.channel]
        self._num_parts[segment.channel] += 1
        if self._parts is None:
            self._parts = in_parts(self._options)
        for number, work in self._parts.items():
            analysis = self.analyses[segment.channel][index][number]
            result = await asyncio.to_thread(work, RecognisedSpeech(segment, analysis))
            (segment,), turns = result.segments, result.turns
        return segment, turns

    async def finished(self, segments: Sequence[Segment]) -> AfterRecordingResult:
        """Return the segments, in order of time, as the hooks leave them, and their findings."""
        result = AfterRecordingResult(segments)
        starts: dict[int, list[float]] = defaultdict(list)
        for segment in segments:
            starts[segment.channel].append(segment.start)

        def analyses_of(segment: Segment) -> list[Any]:
            # It may be a part of one that was heard as a whole.
            index = bisect_right(starts[segment.channel], segment.start) - 1
            return self.analyses[segment.channel][index]

        for number, (hook, _) in enumerate(self._hooks):
            recognised = [
                RecognisedSpeech(item, analyses_of(item)[number]) for item in result.segments
            ]
            after = await hook(recognised, self._options, self._calls)
            result = replace(
                after,
                extra={**result.extra, **after.extra},
                turns=after.turns or result.turns,
                embeddings=after.embeddings or result.embeddings,
            )
        return result


async def recognize_channels(
    recording: Recording,
    options: RecognitionOptions,
    calls: Calls,
    most: int,
    most_at_first: int,
    whole: WholeRecording,
) -> AsyncGenerator[Segment, None]:
    """Yield the segments of all channels of a recording in order of their starts.

    The channels are recognised at the same time. A segment is yielded as soon as no other channel
    can have an earlier one. At most `most` segments are in flight over all channels; until the
    first is known, at most `most_at_first` of these are not done.
    """
    share, share_at_first = (
        max(1, limit // len(recording.channels)) for limit in (most, most_at_first)
    )
    async with AsyncExitStack() as stack:
        channels = {}
        for number, blocks in recording.channels.items():
            listening = partial(whole.next, number)
            channel = recognize(blocks, options, calls, share, share_at_first, listening)
            channels[number] = await stack.enter_async_context(aclosing(channel))
        async with aclosing(_in_order_of_time(channels)) as segments:
            async for segment in segments:
                yield segment


async def _in_order_of_time(
    channels: Mapping[int, AsyncGenerator[Segment, None]],
) -> AsyncGenerator[Segment, None]:
    """Merge channels, each in order of time, and set the channel of each segment."""
    nexts = {number: asyncio.create_task(anext(item, None)) for number, item in channels.items()}
    try:
        while True:
            known = zip(nexts, await asyncio.gather(*nexts.values()), strict=True)
            heads = [replace(item, channel=number) for number, item in known if item]
            if not heads:
                return
            first = min(heads, key=lambda segment: (segment.start, segment.channel))
            yield first
            nexts[first.channel] = asyncio.create_task(anext(channels[first.channel], None))
    finally:
        for task in nexts.values():
            task.cancel()
        await asyncio.gather(*nexts.values(), return_exceptions=True)


async def recognize(
    blocks: AudioBlocks,
    options: RecognitionOptions,
    calls: Calls,
    most: int,
    most_at_first: int,
    listening: Callable[[], Listen | None],
) -> AsyncGenerator[Segment, None]:
    """Yield the segments of one channel in order of time, each as soon as it is ready.

    Several segments are encoded and decoded at once, and at each component the earliest goes first.
    Reading the audio pauses while `most` are in flight. `listening` is `WholeRecording.next` of the
    channel.
    """
    most_at_work = most_at_first
    under_way: deque[asyncio.Task[Segment]] = deque()
    recognised: deque[asyncio.Task[Segment]] = deque()
    """Segments before the text steps, which no other segment waits for."""
    latest: asyncio.Task[Segment] | None = None
    async with aclosing(speech_segments(blocks, options, calls)) as stretches:
        reading = asyncio.create_task(anext(stretches, None))
        try:
            while True:
                if under_way and under_way[0].done():
                    yield await under_way.popleft()
                    recognised.popleft()
                    most_at_work = most
                    continue
                at_work = [task for task in under_way if not task.done()]
                is_full = len(under_way) >= most or len(at_work) >= most_at_work
                if at_work:
                    # A finished segment does not wait for the next speech to be found.
                    awaited = *at_work, *(() if is_full else (reading,))
                    await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
                    if is_full or not reading.done():
                        continue
                speech = await reading
                if speech is None:
                    break
                listen = listening()
                speech = replace(speech, said_before=text_of(latest))
                turn = copy_context()
                turn.run(PART.set, speech.start)
                latest = asyncio.create_task(
                    recognize_requested(speech, options, calls), context=turn
                )
                recognised.append(latest)
                if listen or options.has_text_steps:
                    hear = listen and partial(listen, speech)
                    completed = _completed(latest, hear, options, calls)
                    under_way.append(asyncio.create_task(completed, context=turn))
                else:
                    under_way.append(latest)
                reading = asyncio.create_task(anext(stretches, None))
            while under_way:
                yield await under_way.popleft()
        finally:
            tasks = (reading, *under_way, *recognised)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def text_of(before: asyncio.Task[Segment] | None) -> Callable[[], Awaitable[str]]:
    """Return a function that waits for the text of a segment that is being recognised."""

    async def said() -> str:
        if before is None:
            return ""
        # Awaiting the task itself would cancel it with the segment that waits.
        await asyncio.wait((before,))
        return before.result().text

    return said


async def _completed(
    recognised: asyncio.Task[Segment],
    hear: Callable[[], Coroutine[None, None, None]] | None,
    options: RecognitionOptions,
    calls: Calls,
) -> Segment:
    """Return a segment after the text steps, when the hooks have analysed it too."""

    async def written() -> Segment:
        return await with_text_steps(
            await recognised, options, calls, is_punctuated=options.writes_punctuation
        )

    if hear is None:
        return await written()
    segment, _ = await together([written(), hear()])
    return cast(Segment, segment)


async def recognize_requested(
    speech: SpeechSegment, options: RecognitionOptions, calls: Calls
) -> Segment:
    """Return a recognised segment, with words only if the request asks for them."""
    segment = await recognize_complete(speech, options, calls)
    return segment if options.word_timestamps else replace(segment, words=())


async def speech_segments(
    blocks: AudioBlocks, options: RecognitionOptions, calls: Calls
) -> AsyncGenerator[SpeechSegment, None]:
    """Yield the stretches of speech. Without VAD, yield all audio, cut where it is quietest."""
    segmenter = Segmenter(segment_rules(options))
    held = _Held()
    find_speech = speech_finder()
    state: Array | TensorHandle | None = state_of(options)
    while (block := await _read(blocks)) is not None:
        if options.vad:
            speech_probs, state = await find_speech(calls, block, state)
        else:
            speech_probs = loudness(block)
        held.append(block, speech_probs)
        for span in segmenter.push(speech_probs):
            yield held.cut(span, options)
        held.drop_before(segmenter.needed_from)
    for span in segmenter.flush(held.end):
        yield held.cut(span, options)


class _Held:
    """The audio that a later segment may still need, and its speech probabilities."""

    def __init__(self) -> None:
        self._samples = np.zeros(0, np.float32)
        self._probs = np.zeros(0, np.float32)
        self._start = 0
        """First sample in the recording, a multiple of VAD_FRAME_SAMPLES."""

    @property
    def end(self) -> int:
        return self._start + len(self._samples)

    def append(self, block: Array, speech_probs: Array) -> None:
        has_more = len(self._samples) > 0
        self._samples = np.concatenate((self._samples, block)) if has_more else block
        self._probs = np.concatenate((self._probs, speech_probs)) if has_more else speech_probs

    def drop_before(self, sample: int) -> None:
        dropped = min(sample - self._start, len(self._samples))
        self._samples = self._samples[dropped:]
        self._probs = self._probs[-(-dropped // VAD_FRAME_SAMPLES) :]
        self._start += dropped

    def cut(self, span: Span, options: RecognitionOptions) -> SpeechSegment:
        # A view would keep all of the audio in memory until the segment is done.
        start, end = span.start - self._start, span.end - self._start
        waveform = self._samples[start:end].copy()
        if options.vad:
            speech_probs = frames_between(self._probs, start, end).copy()
        else:
            speech_probs = speech_likeness(waveform)
        return SpeechSegment(span.start / SAMPLE_RATE, waveform, speech_probs)


async def _read(blocks: AudioBlocks) -> Array | None:
    if blocks.are_at_hand:
        return next(blocks, None)
    return await asyncio.to_thread(next, blocks, None)
