"""The streaming road: steps of audio → VAD beside encoder → search → the text so far.

Without the VAD the encoder's own letters tell where somebody speaks: a call less for each step.

A client's chunks are cut anew into steps of one length, so that what a stream is answered depends
on its audio alone and not on how the client cuts it.
"""

import asyncio
import time
import uuid
from asyncio import FIRST_COMPLETED
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

import numpy as np

from conch.audio import StreamAudio
from conch.component import Array
from conch.decoding.nbest import joined, rescored
from conch.endpointing import Endpointer, EndpointRules, Speech, SpeechProbs
from conch.errors import TranscriptionError
from conch.metrics import ENDPOINTS, Metrics
from conch.options import RecognitionOptions
from conch.orchestrator import ctc_roles, roles
from conch.orchestrator.calls import Calls, StreamPlace
from conch.orchestrator.ctc_roles import CtcDecoded
from conch.orchestrator.offline import SpeechSegment, recognize_segment
from conch.result import Hypothesis, Segment, Transcript
from conch.segmentation import FRAME_SAMPLES, SAMPLE_RATE, Span

One = TypeVar("One")
Other = TypeVar("Other")


@dataclass(slots=True)
class Utterance:
    """What is being said since the last endpoint."""

    start: int = 0
    """Sample of the stream."""
    text: str = ""
    """So far …"""
    stable: str = ""
    """… and the beginning of it that will not change any more."""
    score: float = 0.0
    """Of the text."""
    audio: list[Array] = field(default_factory=list)
    """For the second pass; empty without one."""


class Stream:
    """One open stream: what is known between its chunks, and the road of each chunk."""

    def __init__(
        self,
        options: RecognitionOptions,
        audio: StreamAudio,
        detached: Calls,
        metrics: Metrics,
        *,
        max_second_passes: int,
        keep_alive_s: float,
    ) -> None:
        """Stand before the first sample.

        Args:
            options: of the whole stream.
            audio: cuts the stream's chunks into steps.
            detached: for calls that outlive the chunk that caused them.
            metrics: to count endpoints in.
            max_second_passes: under way at once; one more waits, and the stream with it.
            keep_alive_s: seconds without a step after which the components are sent an empty one,
                so that they do not take the stream for abandoned.
        """
        self.options = options
        self._search_options = options.of_first_pass()
        self.audio = audio
        self._detached, self._metrics = detached, metrics
        self._max_second_passes, self._keep_alive_s = max_second_passes, keep_alive_s
        self._last_step = time.monotonic()
        # Not the client's id: two clients may choose the same.
        self._child = uuid.uuid4().hex
        self._is_child_open = False
        self._vad_state: Array | None = None
        self._endpointer = Endpointer(endpoint_rules(options))
        self._heard = 0
        """Samples that have gone through the steps."""
        self._utterance = Utterance()
        self._segments: list[Segment] = []
        """The utterances that have ended, with the text of their latest pass."""
        self._second_passes: dict[int, asyncio.Task[Segment]] = {}
        """Under way, by the utterance."""

    async def hear(
        self, steps: Sequence[tuple[Array, bool]], calls: Calls, *, ends: bool
    ) -> Transcript:
        """Hear a chunk and return the transcript so far; at the end, the final one.

        Its segments are those that are new or replaced since the last answer; at the end, all. What
        this raises leaves the stream half heard: it is to be closed.

        Args:
            steps: that `audio` makes of the chunk.
            calls: of the chunk's own request.
            ends: whether it is the last.
        """
        known = len(self._segments)
        if not steps and time.monotonic() - self._last_step > self._keep_alive_s:
            steps = [(np.zeros(0, np.float32), False)]
        for step, is_last in steps:
            await self._take(step, calls, ends=is_last)
        if ends:
            await asyncio.gather(*self._second_passes.values())
        told = {*self._second_passes_done(), *range(0 if ends else known, len(self._segments))}
        return self._transcript(sorted(told), calls, ends=ends)

    async def close(self) -> None:
        """Free what the components keep of the stream, if its end has not done so already."""
        for second_pass in self._second_passes.values():
            second_pass.cancel()
        if self._is_child_open:
            self._is_child_open = False
            place = StreamPlace(self._child, starts=False, ends=True)
            await ctc_roles.end(self._detached, place)

    async def _take(self, step: Array, calls: Calls, *, ends: bool) -> None:
        """Hear one step: VAD and encoder side by side, or the encoder alone, then the search."""
        place = StreamPlace(self._child, starts=not self._is_child_open, ends=ends)
        self._is_child_open = True
        self._last_step = time.monotonic()
        if self.options.vad:
            frames, log_probs = await both(
                self._find_speech(step, calls), ctc_roles.encode_step(calls, step, place)
            )
        else:
            frames, log_probs = await ctc_roles.encode_and_find_speech(calls, step, place)
        self._heard += len(step)
        rule = self._endpointer.push(frames)
        if not self.options.endpointing:
            rule = None
        if self._has_second_pass:
            self._utterance.audio.append(step)
        found = await ctc_roles.decode_step(
            calls,
            log_probs,
            self._search_options,
            place,
            start=self._utterance.start / SAMPLE_RATE,
            is_over=rule is not None or ends,
        )
        self._is_child_open = not ends
        if rule is not None:
            self._metrics.add(ENDPOINTS, rule=rule)
        if (rule is not None or ends) and self._search_options.rescore:
            found = await self._rescored(found, calls)
        best = found.nbest[0]
        utterance = self._utterance
        utterance.text, utterance.stable, utterance.score = best.text, found.stable, best.score
        if rule is not None or ends:
            while len(self._second_passes) >= self._max_second_passes:
                await asyncio.wait(self._second_passes.values(), return_when=FIRST_COMPLETED)
                self._second_passes_done()
            self._end_utterance(found, rule or "end")

    async def _find_speech(self, step: Array, calls: Calls) -> SpeechProbs:
        if not len(step):
            return SpeechProbs(step, FRAME_SAMPLES)
        probs, state = await roles.find_speech(calls, step, self._vad_state)
        self._vad_state = state.numpy().copy()  # a handle would keep the server's memory
        return SpeechProbs(probs, FRAME_SAMPLES)

    async def _rescored(self, found: CtcDecoded, calls: Calls) -> CtcDecoded:
        scores = await roles.language_scores(calls, [item.text for item in found.nbest])
        return replace(found, nbest=rescored(found.nbest, scores, self._search_options))

    def _end_utterance(self, found: CtcDecoded, endpoint: str) -> None:
        """Keep the utterance's text, have a second pass made of it, and begin the next one."""
        utterance, speech = self._utterance, self._endpointer.speech
        self._utterance = Utterance(start=self._heard)
        self._endpointer.restart()
        if speech.first is None and not found.nbest[0].text:
            return
        span = speech_span(speech, self._heard - utterance.start, self.options.vad_pad_ms)
        segment = Segment(
            start=round((utterance.start + span.start) / SAMPLE_RATE, 3),
            end=round((utterance.start + span.end) / SAMPLE_RATE, 3),
            nbest=tuple(found.nbest[: self.options.nbest]),
            words=found.words[found.nbest[0].text] if self.options.word_timestamps else (),
            index=len(self._segments),
            endpoint=endpoint,
        )
        self._segments.append(segment)
        if self._has_second_pass:
            audio = np.concatenate(utterance.audio)[span.start : span.end]
            task = asyncio.create_task(self._second_pass(segment, audio))
            self._second_passes[segment.index] = task

    async def _second_pass(self, segment: Segment, audio: Array) -> Segment:
        """Return the segment with the offline road's text; with its own, where that road fails."""
        try:
            speech = SpeechSegment(segment.start, audio)
            again = await recognize_segment(speech, self.options, self._detached)
        except TranscriptionError as error:
            return replace(segment, error=f"no second pass: {error}")
        return replace(segment, nbest=again.nbest, words=again.words, passes=2)

    def _second_passes_done(self) -> list[int]:
        """Take over the texts of the second passes that are done; return which these are."""
        done = [index for index, task in self._second_passes.items() if task.done()]
        for index in done:
            self._segments[index] = self._second_passes.pop(index).result()
        return done

    def _transcript(self, told: Sequence[int], calls: Calls, *, ends: bool) -> Transcript:
        first_open = min(self._second_passes, default=len(self._segments))
        stable = [segment.text for segment in self._segments[:first_open]]
        texts = [segment.text for segment in self._segments]
        if self.options.partials:
            texts.append(self._utterance.text)
            if not self._has_second_pass:
                stable.append(self._utterance.stable)
        if ends:
            nbest = joined([segment.nbest for segment in self._segments], self.options.nbest)
        else:
            scores = [segment.nbest[0].score for segment in self._segments]
            score = sum(scores, self._utterance.score)
            nbest = (Hypothesis(" ".join(filter(None, texts)), score, am_score=score),)
        return Transcript(
            nbest=nbest,
            segments=tuple(self._segments[index] for index in told),
            duration=round(self._heard / SAMPLE_RATE, 3),
            road=calls.road,
            stages=calls.stages,
            is_final=ends,
            stable=" ".join(filter(None, stable)),
        )

    @property
    def _has_second_pass(self) -> bool:
        return self.options.mode == "two_pass"


async def both(one: Awaitable[One], other: Awaitable[Other]) -> tuple[One, Other]:
    """Wait for two things side by side, for both of them even where one fails."""
    first, second = await asyncio.gather(one, other, return_exceptions=True)
    for found in (first, second):
        if isinstance(found, BaseException):
            raise found
    return cast(tuple[One, Other], (first, second))


def endpoint_rules(options: RecognitionOptions) -> EndpointRules:
    """Return the request's rules."""
    return EndpointRules(
        threshold=options.vad_threshold,
        silence_ms=options.endpoint_silence_ms,
        no_speech_ms=options.endpoint_no_speech_ms,
        length_s=options.max_utterance_s,
    )


def speech_span(speech: Speech, num_samples: int, pad_ms: int) -> Span:
    """Return where in an utterance somebody speaks, padded; all of it if nobody was heard."""
    if speech.first is None:
        return Span(0, num_samples)
    pad = pad_ms * SAMPLE_RATE // 1000
    return Span(max(0, speech.first - pad), min(num_samples, speech.after_last + pad))
