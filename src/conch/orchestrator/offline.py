"""The offline road: audio → speech → segments, all in flight at once → text, in order of time."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace

import numpy as np

from conch.audio import AudioBlocks, Recording
from conch.component import Array
from conch.decoding.nbest import attention_rescored, rescored
from conch.options import RecognitionOptions
from conch.orchestrator import ctc_roles, roles
from conch.orchestrator.calls import Calls, Tensor
from conch.result import Segment, Word
from conch.segmentation import SAMPLE_RATE, Segmenter, SegmentRules, Span, loudness


@dataclass(frozen=True, slots=True)
class SpeechSegment:
    """A stretch of audio to recognise."""

    start: float
    """Seconds on the audio's clock."""
    waveform: Array
    """FP32 [samples], 16 kHz."""

    @property
    def end(self) -> float:
        return self.start + len(self.waveform) / SAMPLE_RATE


async def recognize_channels(
    recording: Recording,
    options: RecognitionOptions,
    calls: Calls,
    max_segments_in_flight: int,
) -> AsyncGenerator[Segment, None]:
    """Yield the segments of all channels of a recording in order of their starts.

    The channels are recognised side by side. A segment comes as soon as it is known that no other
    channel has an earlier one.
    """
    share = max(1, max_segments_in_flight // len(recording.channels))
    async with AsyncExitStack() as stack:
        roads = {}
        for number, blocks in recording.channels.items():
            road = recognize(blocks, options, calls, share)
            roads[number] = await stack.enter_async_context(aclosing(road))
        async with aclosing(_in_order_of_time(roads)) as segments:
            async for segment in segments:
                yield segment


async def _in_order_of_time(
    roads: Mapping[int, AsyncGenerator[Segment, None]],
) -> AsyncGenerator[Segment, None]:
    """Merge roads, each of which is in order, and say of each segment which channel it is of."""
    nexts = {number: asyncio.create_task(anext(road, None)) for number, road in roads.items()}
    try:
        while True:
            known = zip(nexts, await asyncio.gather(*nexts.values()), strict=True)
            heads = [replace(item, channel=number) for number, item in known if item]
            if not heads:
                return
            first = min(heads, key=lambda segment: (segment.start, segment.channel))
            yield first
            nexts[first.channel] = asyncio.create_task(anext(roads[first.channel], None))
    finally:
        for task in nexts.values():
            task.cancel()
        await asyncio.gather(*nexts.values(), return_exceptions=True)


async def recognize(
    blocks: AudioBlocks,
    options: RecognitionOptions,
    calls: Calls,
    max_segments_in_flight: int,
) -> AsyncGenerator[Segment, None]:
    """Yield the segments of one channel in order of time, each as soon as it is known.

    Later segments are being encoded and decoded while earlier ones are waited for; only when
    `max_segments_in_flight` are under way does reading the audio pause.
    """
    under_way: deque[asyncio.Task[Segment]] = deque()
    async with aclosing(speech_segments(blocks, options, calls)) as found:
        reading = asyncio.create_task(anext(found, None))
        try:
            while True:
                # A segment that is known does not wait for the end of the silence behind it.
                if under_way:
                    is_full = len(under_way) >= max_segments_in_flight
                    awaited = under_way[0], *(() if is_full else (reading,))
                    await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
                    if under_way[0].done() or is_full:
                        yield await under_way.popleft()
                        continue
                speech = await reading
                if speech is None:
                    break
                under_way.append(asyncio.create_task(recognize_segment(speech, options, calls)))
                reading = asyncio.create_task(anext(found, None))
            while under_way:
                yield await under_way.popleft()
        finally:
            tasks = (reading, *under_way)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def recognize_segment(
    speech: SpeechSegment, options: RecognitionOptions, calls: Calls
) -> Segment:
    """Encode, decode and, where the request asks for it, rescore and align one segment."""
    if options.decoder != "attention":
        log_probs = await ctc_roles.encode(calls, speech.waveform)
        found = await ctc_roles.decode(calls, log_probs, options, speech.start)
        nbest = found.nbest
    else:
        encoded = await roles.encode(calls, speech.waveform)
        nbest = await roles.decode(calls, encoded, options)
    if options.rescore:  # before attention_rescore, whose scores are added to what this leaves
        lm_scores = await roles.language_scores(calls, [hypothesis.text for hypothesis in nbest])
        nbest = rescored(nbest, lm_scores, options)
    if options.attention_rescore:
        encoded = await roles.encode(calls, speech.waveform)
        texts = [hypothesis.text for hypothesis in nbest]
        scores = await roles.attention_scores(calls, encoded, texts, options.language)
        nbest = attention_rescored(nbest, scores, options.attention_weight)
    text = nbest[0].text
    words: tuple[Word, ...] = ()
    if options.word_timestamps and text:
        if options.decoder != "attention":
            words = found.words[text]
        else:
            words = await roles.align(calls, encoded, text, options.language, speech.start)
    return Segment(round(speech.start, 3), round(speech.end, 3), tuple(nbest), words)


async def speech_segments(
    blocks: AudioBlocks, options: RecognitionOptions, calls: Calls
) -> AsyncGenerator[SpeechSegment, None]:
    """Yield the stretches of speech; without VAD, all of the audio cut where it is quietest."""
    segmenter = Segmenter(segment_rules(options))
    held, held_from = np.zeros(0, np.float32), 0
    state: Tensor | None = None
    while (block := await _read(blocks)) is not None:
        if options.vad:
            speech_probs, state = await roles.find_speech(calls, block, state)
        else:
            speech_probs = loudness(block)
        held = np.concatenate((held, block)) if len(held) else block
        for span in segmenter.push(speech_probs):
            yield _cut(held, held_from, span)
        dropped = min(segmenter.needed_from - held_from, len(held))
        held, held_from = held[dropped:], held_from + dropped
    for span in segmenter.flush(held_from + len(held)):
        yield _cut(held, held_from, span)


async def _read(blocks: AudioBlocks) -> Array | None:
    if blocks.are_at_hand:
        return next(blocks, None)
    return await asyncio.to_thread(next, blocks, None)


def segment_rules(options: RecognitionOptions) -> SegmentRules:
    """Return the request's rules; without VAD every frame counts as speech."""
    return SegmentRules(
        threshold=options.vad_threshold if options.vad else 0.0,
        min_speech_ms=options.vad_min_speech_ms if options.vad else 0,
        min_silence_ms=options.vad_min_silence_ms,
        pad_ms=options.vad_pad_ms if options.vad else 0,
        max_segment_s=options.max_segment_s,
    )


def _cut(held: Array, held_from: int, span: Span) -> SpeechSegment:
    # A copy: a view would keep all of the held audio for as long as the segment is under way.
    waveform = held[span.start - held_from : span.end - held_from].copy()
    return SpeechSegment(span.start / SAMPLE_RATE, waveform)
