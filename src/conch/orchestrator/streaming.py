"""The streaming road: steps of audio → VAD beside encoder → search → the text so far.

A client's chunks are cut anew into steps of one length, so that what a stream is answered depends
on its audio alone and not on how the client cuts it.
"""

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from conch.audio import StreamAudio
from conch.component import Array
from conch.decoding.nbest import joined, rescored
from conch.endpointing import Endpointer, EndpointRules, Speech
from conch.errors import TranscriptionError
from conch.options import RecognitionOptions
from conch.orchestrator import ctc_roles, roles
from conch.orchestrator.calls import Calls, StreamPlace
from conch.orchestrator.ctc_roles import CtcDecoded
from conch.orchestrator.offline import SpeechSegment, recognize_segment
from conch.result import Segment, Transcript
from conch.segmentation import FRAME_SAMPLES, SAMPLE_RATE, Span


@dataclass(slots=True)
class Utterance:
    """What is being said since the last endpoint."""

    start: int = 0
    """Sample of the stream."""
    text: str = ""
    """So far …"""
    stable: str = ""
    """… and the beginning of it that will not change any more."""
    audio: list[Array] = field(default_factory=list)
    """For the second pass; empty without one."""


class Stream:
    """One open stream: what is known between its chunks, and the road of each chunk."""

    def __init__(
        self,
        options: RecognitionOptions,
        sample_rate: int,
        step_samples: int,
        detached: Calls,
    ) -> None:
        """Stand before the first sample.

        Args:
            options: of the whole stream.
            sample_rate: Hz, of its chunks.
            step_samples: what the streaming encoder hears at a time, at 16 kHz.
            detached: for calls that outlive the chunk that caused them.
        """
        self.options = options
        self._search_options = options.of_first_pass()
        self.audio = StreamAudio(sample_rate, step_samples)
        self._detached = detached
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

    async def hear(self, chunk: Array, calls: Calls, *, ends: bool) -> Transcript:
        """Take the next chunk and return the transcript so far; at the end, the final one.

        Its segments are those that are new or replaced since the last answer; at the end, all.

        Args:
            chunk: FP32 [samples] at the stream's sample rate.
            calls: of the chunk's own request.
            ends: whether it is the last.
        """
        known = len(self._segments)
        for step, is_last in self.audio.steps(chunk, ends=ends):
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
        """Hear one step: two models side by side, then the search."""
        place = StreamPlace(self._child, starts=not self._is_child_open, ends=ends)
        self._is_child_open = True
        speech_probs, log_probs = await asyncio.gather(
            self._find_speech(step, calls), ctc_roles.encode_step(calls, step, place)
        )
        self._heard += len(step)
        rule = self._endpointer.push(speech_probs) if self.options.endpointing else None
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
        if (rule is not None or ends) and self._search_options.rescore:
            found = await self._rescored(found, calls)
        self._utterance.text, self._utterance.stable = found.nbest[0].text, found.stable
        if rule is not None or ends:
            self._end_utterance(found, rule or "end")

    async def _find_speech(self, step: Array, calls: Calls) -> Array:
        if not len(step):
            return step
        speech_probs, state = await roles.find_speech(calls, step, self._vad_state)
        self._vad_state = state.numpy().copy()  # a handle would keep the server's memory
        return speech_probs

    async def _rescored(self, found: CtcDecoded, calls: Calls) -> CtcDecoded:
        scores = await roles.language_scores(calls, [item.text for item in found.nbest])
        options = self._search_options
        nbest = rescored(found.nbest, scores, options.lm_weight, options.word_bonus)
        return replace(found, nbest=nbest)

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
            if not self._second_passes:
                stable.append(self._utterance.stable)
        nbest = joined([segment.nbest for segment in self._segments], self.options.nbest)
        if not ends:
            nbest = (replace(nbest[0], text=" ".join(filter(None, texts))),)
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


def endpoint_rules(options: RecognitionOptions) -> EndpointRules:
    """Return the request's rules."""
    return EndpointRules(
        threshold=options.vad_threshold,
        silence_ms=options.endpoint_silence_ms,
        no_speech_ms=options.endpoint_no_speech_ms,
        length_s=options.max_utterance_s,
    )


def speech_span(speech: Speech, num_samples: int, pad_ms: int) -> Span:
    """Return where in an utterance somebody speaks, padded; all of it if the VAD heard nobody."""
    if speech.first is None:
        return Span(0, num_samples)
    pad = pad_ms * SAMPLE_RATE // 1000
    start = max(0, speech.first * FRAME_SAMPLES - pad)
    return Span(start, min(num_samples, speech.after_last * FRAME_SAMPLES + pad))
