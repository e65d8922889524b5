"""The streaming path: steps of audio → VAD beside encoder → search → the text so far.

Until somebody speaks the VAD alone is called. Without the VAD the encoder's own letters tell where
somebody speaks: a call less for each step in which somebody does.

A client's chunks are cut anew into steps of one length, so that what a stream is answered depends
on its audio alone and not on how the client cuts it.
"""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import TypeVar, cast

import numpy as np

from conch.audio.live import LiveAudio
from conch.component import Array
from conch.component.waveform import SAMPLE_RATE, VAD_FRAME_SAMPLES
from conch.orchestrator import ctc_roles, roles
from conch.orchestrator.calls import Calls
from conch.orchestrator.ctc_roles import CtcDecoded, LogProbs
from conch.orchestrator.endpointing import Endpointer, EndpointRules, Rule, SpeechProbs, speech_span
from conch.orchestrator.live_state import (
    NO_SAMPLES,
    Speaking,
    State,
    Step,
    Utterance,
    Waiting,
)
from conch.orchestrator.metrics import ENDPOINTS, Metrics
from conch.orchestrator.second_passes import SecondPasses
from conch.orchestrator.segment import SpeechSegment
from conch.orchestrator.segmentation import Span, frames_between, speech_likeness
from conch.wire.nbest import joined, rescored
from conch.wire.options import RecognitionOptions
from conch.wire.result import Hypothesis, Segment, Transcript
from conch.wire.stream_place import StreamPlace

One = TypeVar("One")
Other = TypeVar("Other")


class LiveStream:
    """One open stream: what is known between its chunks, and the path of each chunk."""

    def __init__(
        self,
        options: RecognitionOptions,
        audio: LiveAudio,
        detached: Calls,
        metrics: Metrics,
        *,
        max_second_passes: int,
        keep_alive_s: float,
    ) -> None:
        """Start with no audio and no utterance.

        Args:
            options: of the whole stream.
            audio: cuts the stream's chunks into steps.
            detached: for calls that outlive the chunk that caused them.
            metrics: to count endpoints in.
            max_second_passes: under way at once; one more waits, and the stream with it.
            keep_alive_s: seconds without calls after which encoder and decoder are sent nothing, so
                that they do not take the stream for abandoned.
        """
        self.options = options
        self._search_options = options.of_first_pass()
        self.audio = audio
        self._detached, self._metrics = detached, metrics
        self._keep_alive_s = keep_alive_s
        # Not the client's id: two clients may choose the same.
        self._child = uuid.uuid4().hex
        """The stream that encoder and search keep of this one."""
        self._state: State = Waiting()
        self._vad_state: Array | None = None
        self._endpointer = Endpointer(endpoint_rules(options))
        self._heard = 0
        """Samples of the steps so far."""
        self._segments: list[Segment] = []
        """The utterances that have ended, with the text of their latest pass."""
        self._second_passes = SecondPasses(options, detached, max_second_passes)

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
        for step, is_last in steps:
            await self._take(step, calls, ends=is_last)
        if ends:
            await self._second_passes.finish()
        elif self._is_forgotten_soon:
            await self._keep_alive(calls)
        told = set(range(0 if ends else known, len(self._segments)))
        for segment in self._second_passes.take_done():
            self._segments[segment.index] = segment
            told.add(segment.index)
        return self._transcript(sorted(told), calls, ends=ends)

    async def close(self) -> None:
        """Free what the components keep of the stream, if its end has not done so already."""
        self._second_passes.cancel()
        if self._state.called is not None:
            self._state = Waiting()
            place = StreamPlace(self._child, starts=False, ends=True)
            await ctc_roles.end(self._detached, place)

    async def _take(self, samples: Array, calls: Calls, *, ends: bool) -> None:
        """Hear one step: the VAD alone until somebody speaks, then VAD and encoder side by side."""
        if isinstance(self._state, Waiting) and self.options.vad:
            await self._listen(self._state, samples, calls, ends=ends)
        else:
            await self._go_on(self._state, samples, calls, ends=ends)

    async def _listen(self, waiting: Waiting, samples: Array, calls: Calls, *, ends: bool) -> None:
        """Hear a step by the VAD alone; begin an utterance if somebody speaks in it."""
        step = Step(samples, await self._find_speech(samples, calls))
        rule = self._follow(step)
        if self._endpointer.speech.first is None:
            self._state = waiting.passed(step)
            if rule is not None:
                self._endpointer.restart()
            return
        step = waiting.pre_roll.followed_by(step)
        speaking = waiting.begun(self._heard - len(step.waveform), time.monotonic())
        place = self._enter(speaking, ends=ends)
        log_probs = await ctc_roles.encode_step(calls, step.waveform, place)
        await self._decode(speaking, step, log_probs, place, calls, rule)

    async def _go_on(self, state: State, samples: Array, calls: Calls, *, ends: bool) -> None:
        """Hear a step by the encoder, with or without the VAD; begin an utterance if none is."""
        now = time.monotonic()
        if isinstance(state, Waiting):
            speaking = state.begun(self._heard, now)
        else:
            speaking = replace(state, called=now)
        place = self._enter(speaking, ends=ends)
        if self.options.vad:
            speech, log_probs = await both(
                self._find_speech(samples, calls), ctc_roles.encode_step(calls, samples, place)
            )
        else:
            speech, log_probs = await ctc_roles.encode_and_find_speech(calls, samples, place)
        step = Step(samples, speech)
        rule = self._follow(step)
        await self._decode(speaking, step, log_probs, place, calls, rule)

    @property
    def _is_forgotten_soon(self) -> bool:
        """Whether encoder and search keep the stream, and have not been called for long."""
        called = self._state.called
        return called is not None and time.monotonic() - called > self._keep_alive_s

    def _enter(self, state: State, *, ends: bool) -> StreamPlace:
        """Take on a state whose calls are about to be made.

        Returns:
            where the calls stand in the components' stream; the first ones open it.
        """
        place = StreamPlace(self._child, starts=self._state.called is None, ends=ends)
        self._state = state
        return place

    async def _decode(
        self,
        speaking: Speaking,
        step: Step,
        log_probs: LogProbs,
        place: StreamPlace,
        calls: Calls,
        rule: Rule | None,
    ) -> None:
        """Take over what the utterance is known to be after a step, and end it if it is over."""
        if self._has_second_pass:
            speaking = speaking.heard(step)
        is_over = rule is not None or place.ends
        found = await self._search(log_probs, place, calls, speaking.utterance, is_over=is_over)
        if not is_over:
            self._state = _told(speaking, found)
            return
        self._state = speaking.over(ends=place.ends)
        if self._search_options.rescore:
            found = await self._rescored(found, calls)
        await self._end_utterance(speaking.utterance, found, rule or "end")

    async def _keep_alive(self, calls: Calls) -> None:
        """Send nothing to encoder and search, which would take the stream for abandoned."""
        state = replace(self._state, called=time.monotonic())
        place = self._enter(state, ends=False)
        nothing = await ctc_roles.encode_step(calls, NO_SAMPLES, place)
        found = await self._search(nothing, place, calls, self._utterance, is_over=False)
        if isinstance(state, Speaking):
            self._state = _told(state, found)

    async def _search(
        self,
        log_probs: LogProbs,
        place: StreamPlace,
        calls: Calls,
        utterance: Utterance,
        *,
        is_over: bool,
    ) -> CtcDecoded:
        return await ctc_roles.decode_step(
            calls,
            log_probs,
            self._search_options,
            place,
            start=utterance.start / SAMPLE_RATE,
            is_over=is_over,
        )

    def _follow(self, step: Step) -> Rule | None:
        """Go on behind a step; return the rule that ends the utterance there, if one does."""
        self._heard += len(step.waveform)
        rule = self._endpointer.push(step.speech)
        if rule is None or not self.options.endpointing:
            return None
        self._metrics.add(ENDPOINTS, rule=rule)
        return rule

    async def _find_speech(self, samples: Array, calls: Calls) -> SpeechProbs:
        if not len(samples):
            return SpeechProbs(samples, VAD_FRAME_SAMPLES)
        probs, state = await roles.find_speech(calls, samples, self._vad_state)
        self._vad_state = state.numpy().copy()  # a handle would keep the server's memory
        return SpeechProbs(probs, VAD_FRAME_SAMPLES)

    async def _rescored(self, found: CtcDecoded, calls: Calls) -> CtcDecoded:
        scores = await roles.language_scores(calls, [item.text for item in found.nbest])
        return replace(found, nbest=rescored(found.nbest, scores, self._search_options))

    async def _end_utterance(self, utterance: Utterance, found: CtcDecoded, endpoint: str) -> None:
        """Keep an utterance's text and have a second pass made of it."""
        speech = self._endpointer.speech
        self._endpointer.restart()
        if speech.first is None and not found.nbest[0].text:
            return
        span = speech_span(speech, Span(utterance.start, self._heard), self.options.vad_pad_ms)
        segment = Segment(
            start=round(span.start / SAMPLE_RATE, 3),
            end=round(span.end / SAMPLE_RATE, 3),
            nbest=tuple(found.nbest[: self.options.nbest]),
            words=found.words[found.nbest[0].text] if self.options.word_timestamps else (),
            index=len(self._segments),
            endpoint=endpoint,
        )
        self._segments.append(segment)
        if self._has_second_pass:
            await self._second_passes.begin(segment, self._spoken(utterance, span))

    def _spoken(self, utterance: Utterance, span: Span) -> SpeechSegment:
        """Return the audio of an utterance, from and to samples of the stream."""
        start, end = span.start - utterance.start, span.end - utterance.start
        waveform = np.concatenate([step.waveform for step in utterance.steps])[start:end]
        if self.options.vad:
            speech_probs = np.concatenate([step.speech.probs for step in utterance.steps])
            speech_probs = frames_between(speech_probs, start, end)
        else:
            speech_probs = speech_likeness(waveform)
        return SpeechSegment(span.start / SAMPLE_RATE, waveform, speech_probs)

    def _transcript(self, told: Sequence[int], calls: Calls, *, ends: bool) -> Transcript:
        stable = [segment.text for segment in self._segments[: self._second_passes.first]]
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
            path=calls.path,
            stages=calls.stages,
            is_final=ends,
            stable=" ".join(filter(None, stable)),
        )

    @property
    def _utterance(self) -> Utterance:
        """The utterance under way, or one in which nothing is said yet."""
        return self._state.utterance if isinstance(self._state, Speaking) else Utterance()

    @property
    def _has_second_pass(self) -> bool:
        return self.options.mode == "two_pass"


def _told(speaking: Speaking, found: CtcDecoded) -> Speaking:
    best = found.nbest[0]
    return speaking.found(best.text, found.stable, best.score)


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
