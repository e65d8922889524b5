"""The path of live audio: steps → VAD and encoder side by side → search → the text so far.

With mode `two_pass`, Whisper passes over the open utterance every so often beside the steps.

Before speech begins, only the VAD is called. Without the VAD, the letters that the encoder finds
show where speech is. This saves one call per step of speech.

A client's chunks are cut into steps of equal length. So the answers depend on the audio alone, and
not on the length of the chunks.
"""

import asyncio
import logging
import math
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import TypeVar, cast

import numpy as np

from conch.audio.live import LiveAudio
from conch.audio.segmentation import Span, frames_between, speech_likeness
from conch.bls.calls import Calls
from conch.bls.errors import ComponentAwayError
from conch.bls.metrics import Metrics
from conch.component import Array
from conch.component.waveform import SAMPLE_RATE, VAD_FRAME_SAMPLES
from conch.recognition import ctc_roles, roles
from conch.recognition.config import RecognitionConfig
from conch.recognition.ctc_roles import CtcDecoded, LogProbs
from conch.recognition.languages import told_by_ctc
from conch.recognition.live.endpointing import (
    Endpointer,
    EndpointRules,
    Rule,
    SpeechProbs,
    speech_span,
)
from conch.recognition.live.history import History
from conch.recognition.live.pass_queue import SharedPasses
from conch.recognition.live.rolling_passes import LivePasses
from conch.recognition.live.second_passes import SecondPasses
from conch.recognition.live.sending_speed import SendingSpeed
from conch.recognition.live.state import (
    NO_SAMPLES,
    Speaking,
    State,
    Step,
    Utterance,
    Waiting,
)
from conch.recognition.live.text import LiveText, whole_words
from conch.recognition.metrics import ENDPOINTS, STREAMS_RESUMED
from conch.recognition.rescoring import rescored
from conch.recognition.speech import Heard, SpeechSegment, saying, share_of
from conch.recognition.text.steps import check_text_models, with_text_steps_if_possible
from conch.wire.joining import joined_text
from conch.wire.languages import codes_of
from conch.wire.nbest import joined
from conch.wire.options import RecognitionOptions
from conch.wire.parts import language_of
from conch.wire.result import (
    Hypothesis,
    OpenUtterance,
    Segment,
    Transcript,
    Word,
    text_of_words,
)
from conch.wire.stream_place import StreamPlace

logger = logging.getLogger(__name__)

NO_PAUSE_S = 0.2
"""Silence at the end of a pass that is no pause yet."""
STEPS_AGAIN = 8
"""Steps in a call that brings a component to where it was: the streams of a batch wait for it."""
NOT_HEARD = CtcDecoded([Hypothesis("", 0.0, 0.0)], {"": ()})
"""What the first pass finds in a language that it does not know."""

One = TypeVar("One")
Other = TypeVar("Other")


class LiveStream:
    """One live stream: its state between chunks, and the path of each chunk."""

    def __init__(
        self,
        options: RecognitionOptions,
        audio: LiveAudio,
        detached: Calls,
        metrics: Metrics,
        config: RecognitionConfig,
        shared: SharedPasses,
        without_attention: RecognitionOptions | None,
    ) -> None:
        """Start with no audio and no utterance.

        Args:
            options: Options of the stream.
            audio: Cuts chunks into steps.
            detached: Calls that may outlive the request of their chunk.
            metrics: Where endpoints are counted.
            config: Limits.
            shared: What the passes of all streams share.
            without_attention: Options in place of these on a server without the attention models;
                None if only these will do.
        """
        self.options = options
        self._search_options = options.of_first_pass()
        self.audio = audio
        self._detached, self._metrics = detached, metrics
        self._config, self._load = config, shared.load
        self._without_attention = without_attention
        self._has_first_pass: bool | None = None
        """Whether the CTC model hears the stream; None before the first chunk."""
        # Encoder and search get an empty call before they would drop the stream.
        self._keep_alive_s = config.stream_ttl_s / 4
        # Not the client's id, because two clients may choose the same.
        self._child = uuid.uuid4().hex
        """Id of the stream in encoder and search."""
        self._leaving: set[asyncio.Task[None]] = set()
        """Tasks that end the stream where it went on under another id."""
        self._state: State = Waiting()
        self._told_until = 0
        """End of the firm words that became a segment in mid-utterance, in samples."""
        self._vad_state: Array | None = None
        self._endpointer = Endpointer(endpoint_rules(options))
        self._num_samples = 0
        """Number of samples of the steps so far."""
        self._history = History(options.history_s)
        """Utterances that have ended, with the text of their latest pass."""
        self._second_passes = SecondPasses(
            options,
            detached,
            shared,
            config.max_second_passes,
            self._is_ahead,
            config.first_pass_language,
        )
        self._passes = LivePasses(
            options,
            detached,
            shared,
            self._second_passes,
            self._is_ahead,
            config.stream_step_ms,
        )
        self._firm: dict[int, str] = {}
        """Firm text of each utterance that awaits its second pass, by index."""
        self._speed = SendingSpeed(time.monotonic())

    async def recognize(
        self,
        steps: Sequence[tuple[Array, bool]],
        calls: Calls,
        *,
        ends: bool,
        repeats_text: bool = False,
        pause_ms: float | None = None,
    ) -> Transcript:
        """Recognise a chunk; return what is new in the transcript, or the final one at the end.

        The segments of the transcript are those that are new or replaced since the last answer.
        Its text begins with the first utterance that is one of them or may still change. With
        `repeats_text`, the option or the argument, it repeats `history_s` seconds. The final
        transcript holds the text and the segments of so many seconds too, and what is new. So
        answers do not grow with the stream. After an error the stream must be closed.

        Args:
            steps: Steps that `audio` returned for the chunk, each with whether it is the last.
            calls: Calls of the chunk's request.
            ends: Whether the chunk is the last.
            repeats_text: Whether the client reads no more than the text.
            pause_ms: Of a chunk without audio, how much silence it stands for.

        Raises:
            TranscriptionError: a call failed; see `Calls`.
        """
        if self._has_first_pass is None:
            await self._choose(calls)
        self._speed.mark(self._num_samples, time.monotonic())
        known = self._history.end
        for step, is_last in steps:
            began = time.monotonic()
            await self._recognize_step(step, calls, ends=is_last)
            if self.options.adaptive and not self._is_ahead():  # or the step has waited for passes
                now = time.monotonic()
                self._load.step_took(now - began, now)
        if pause_ms is not None and self.options.endpointing and not ends:
            await self._hear_pause(pause_ms, calls)
        if ends:
            await self._second_passes.finish()
        elif self._needs_keep_alive:
            await self._keep_alive(calls)
        changed = set(range(self._history.first if ends else known, self._history.end))
        for segment in self._second_passes.take_done():
            segment = told_by_ctc(segment, self.options, self._config)
            self._history.replace(segment)
            self._firm.pop(segment.index, None)
            changed.add(segment.index)
        # The passes since the last answer, which no chunk's request has called.
        calls.adopt(self._detached)
        may_change = self._history.end if (at := self._second_passes.first) is None else at
        recent = min(self._history.recent(self._num_samples / SAMPLE_RATE), may_change)
        if ends:
            since = self._history.first
        elif repeats_text or self.options.repeat_text:
            since = recent
        else:
            since = min(changed | {may_change})
        transcript = self._transcript(sorted(changed), since, calls, ends=ends)
        self._history.forget_before(recent)
        return transcript

    async def close(self) -> None:
        """Free the components' state of the stream, unless its end has freed it."""
        self._second_passes.cancel()
        self._passes.cancel()
        if self._has_first_pass and self._state.called is not None:
            self._state = Waiting()
            self._leave_child()
        await asyncio.gather(*self._leaving)

    def _leave_child(self) -> None:
        """Free what encoder and search keep of the stream; it may begin there under a new id."""
        place = StreamPlace(self._child, starts=False, ends=True)
        leaving = asyncio.create_task(ctc_roles.end(self._detached, place))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)
        self._child = uuid.uuid4().hex

    async def _choose(self, calls: Calls) -> None:
        """Use `streaming` if Whisper is missing, and Whisper alone if the CTC model is missing.

        Neither replaces what the client asked for.
        """
        other = self._without_attention
        if other and not await _has_attention(calls):
            self.options, self._search_options = other, other.of_first_pass()
        await check_text_models(self.options, calls)
        self._has_first_pass = True
        if self._has_second_pass and self._passes.is_rolling and self.options.vad:
            fits = self._fits_first_pass(self._config.first_pass_language)
            self._has_first_pass = fits and await calls.is_loaded("ctc_streaming_encoder")

    def _fits_first_pass(self, language: str) -> bool:
        """Return whether the first pass, in this language, may write what Whisper will write."""
        chosen = codes_of(self.options.languages) or (language,)
        is_its_own = self.options.language in ("auto", language) and language in chosen
        return is_its_own and self.options.task == "transcribe"

    async def _hear_pause(self, pause_ms: float, calls: Calls) -> None:
        """End the utterance if the incomplete step, and a pause after it, are silence enough.

        Encoder and search end their stream with it: before its end, they take whole steps only.
        """
        rest = self.audio.incomplete(VAD_FRAME_SAMPLES)
        if not len(rest) and self._endpointer.speech.first is None:
            return
        self._endpointer.pause_ms = pause_ms
        is_over = pause_ms >= self.options.endpoint_silence_ms
        if not is_over and self.options.vad:
            ahead, vad_state = copy(self._endpointer), self._vad_state
            is_over = ahead.push(await self._find_speech(rest, calls)) == "silence"
            self._vad_state = vad_state
        if is_over:
            self.audio.drop(len(rest))
            await self._recognize_step(rest, calls, ends=True)
            # What comes next does not follow on the audio before the pause.
            self._state, self._vad_state = Waiting(self._state.called), None
            if self._state.called is None:
                self._child = uuid.uuid4().hex
        self._endpointer.pause_ms = 0.0

    async def _recognize_step(self, samples: Array, calls: Calls, *, ends: bool) -> None:
        """Recognise a step: by the VAD alone before speech, else by VAD and encoder together."""
        if isinstance(self._state, Waiting) and self.options.vad:
            await self._wait_for_speech(self._state, samples, calls, ends=ends)
        else:
            await self._continue(self._state, samples, calls, ends=ends)

    async def _wait_for_speech(
        self, waiting: Waiting, samples: Array, calls: Calls, *, ends: bool
    ) -> None:
        """Call the VAD alone for a step; begin an utterance if the step has speech."""
        step = Step(samples, await self._find_speech(samples, calls))
        rule = self._find_endpoint(step)
        if self._endpointer.speech.first is None:
            self._state = waiting.after_silence(step)
            if rule is not None:
                self._endpointer.restart()
            return
        step = waiting.pre_roll.followed_by(step)
        speaking = waiting.speaking(self._num_samples - len(step.waveform), time.monotonic())
        place = self._enter(speaking, ends=ends)
        log_probs = None
        if self._has_first_pass:
            log_probs, speaking, place = await self._encode(
                ctc_roles.encode_step, step.waveform, speaking, place, calls
            )
        await self._decode(speaking, step, log_probs, place, calls, rule)

    async def _continue(self, state: State, samples: Array, calls: Calls, *, ends: bool) -> None:
        """Call the encoder for a step, and the VAD if enabled; begin an utterance if needed."""
        now = time.monotonic()
        if isinstance(state, Waiting):
            speaking = state.speaking(self._num_samples, now)
        else:
            speaking = replace(state, called=now)
        place = self._enter(speaking, ends=ends)
        log_probs: LogProbs | None = None
        if not self._has_first_pass:
            speech = await self._find_speech(samples, calls)
        elif self.options.vad:
            speech, (log_probs, speaking, place) = await both(
                self._find_speech(samples, calls),
                self._encode(ctc_roles.encode_step, samples, speaking, place, calls),
            )
        else:
            (speech, log_probs), speaking, place = await self._encode(
                ctc_roles.encode_and_find_speech, samples, speaking, place, calls
            )
        step = Step(samples, speech)
        rule = self._find_endpoint(step)
        await self._decode(speaking, step, log_probs, place, calls, rule)

    @property
    def _needs_keep_alive(self) -> bool:
        """Whether encoder and search keep state, and were not called for `keep_alive_s`."""
        called = self._state.called
        if called is None or not self._has_first_pass:
            return False
        return time.monotonic() - called > self._keep_alive_s

    def _enter(self, state: State, *, ends: bool) -> StreamPlace:
        """Set the state for the next calls.

        Returns:
            The place of these calls in the components' stream. The first calls open it.
        """
        place = StreamPlace(self._child, starts=self._state.called is None, ends=ends)
        self._state = state
        return place

    async def _encode(
        self,
        role: Callable[[Calls, Array, StreamPlace], Awaitable[One]],
        samples: Array,
        speaking: Speaking,
        place: StreamPlace,
        calls: Calls,
    ) -> tuple[One, Speaking, StreamPlace]:
        """Call the encoder for a step, and begin its stream again if it has lost it.

        Returns:
            What the encoder found; the state, and the place of the search's call.
        """
        try:
            return await role(calls, samples, place), speaking, place
        except ComponentAwayError:
            if place.starts:  # it was repeated, in vain
                raise
            speaking, place = await self._begin_again(speaking, place, calls)
            return await role(calls, samples, place), speaking, place

    async def _begin_again(
        self, speaking: Speaking, place: StreamPlace, calls: Calls
    ) -> tuple[Speaking, StreamPlace]:
        """Bring encoder and search to where they were before a step, as a stream of a new id.

        Heard without the audio before the utterance, other words may come out. If firm ones do,
        they become a segment, and what is behind them is heard as an utterance of its own.

        Returns:
            The state, and the place of the step's calls.
        """
        logger.warning("a component has lost a stream, which goes on with the audio that is kept")
        self._metrics.add(STREAMS_RESUMED)
        again, then = await self._hear_again(speaking, place, calls)
        if not self._has_second_pass and not again.utterance.text.startswith(
            text_of_words(speaking.utterance.stable)
        ):
            again, then = await self._hear_again(
                await self._end_firm(speaking, calls), place, calls
            )
        return again, then

    async def _hear_again(
        self, speaking: Speaking, place: StreamPlace, calls: Calls
    ) -> tuple[Speaking, StreamPlace]:
        """Send the audio of the open utterance to encoder and search, as a stream of a new id."""
        self._leave_child()
        num_stable = speaking.utterance.num_stable
        self._state = speaking
        place = StreamPlace(self._child, starts=True, ends=place.ends)
        kept = speaking.utterance.steps
        for first in range(0, len(kept), STEPS_AGAIN):
            steps = np.concatenate([step.waveform for step in kept[first : first + STEPS_AGAIN]])
            then, place = replace(place, ends=False), replace(place, starts=False)
            log_probs = await ctc_roles.encode_step(calls, steps, then)
            found = await self._search(log_probs, then, calls, speaking.utterance, is_over=False)
            speaking = _with_partial(speaking, found)
        utterance = speaking.utterance
        num_stable = min(max(num_stable, utterance.num_stable), len(utterance.words))
        speaking = replace(speaking, utterance=replace(utterance, num_stable=num_stable))
        self._state = speaking
        return speaking, place

    async def _end_firm(self, speaking: Speaking, calls: Calls) -> Speaking:
        """Add the firm words of an open utterance to the segments; return the state after them."""
        utterance = speaking.utterance
        span = speech_span(
            self._endpointer.speech,
            Span(utterance.start, self._num_samples),
            self.options.vad_pad_ms,
        )
        words, left = utterance.after_firm()
        if words:
            best = Hypothesis(text_of_words(words), utterance.score, am_score=utterance.score)
            segment = told_by_ctc(
                Segment(
                    start=round(span.start / SAMPLE_RATE, 3),
                    end=words[-1].end,
                    nbest=(best,),
                    words=words if self.options.word_timestamps else (),
                    index=self._history.end,
                    endpoint="length",
                ),
                self.options,
                self._config,
            )
            self._history.append(await self._with_text_steps(segment, calls), segment.text)
            self._told_until = round(words[-1].end * SAMPLE_RATE)
            self._endpointer.skip(self._told_until)
        return replace(speaking, utterance=left)

    async def _decode(
        self,
        speaking: Speaking,
        step: Step,
        log_probs: LogProbs | None,
        place: StreamPlace,
        calls: Calls,
        rule: Rule | None,
    ) -> None:
        """Update the text of the utterance after a step, and end it if it is over."""
        is_over = rule is not None or place.ends
        if log_probs is None:
            found = NOT_HEARD
        else:
            if self.options.ctc_rescore:
                # A copy: the handle would keep the server's memory.
                speaking = speaking.with_log_probs(log_probs.numpy().copy())
            try:
                found = await self._search(
                    log_probs, place, calls, speaking.utterance, is_over=is_over
                )
            except ComponentAwayError:
                if place.starts:
                    raise
                speaking, place = await self._begin_again(speaking, place, calls)
                log_probs = await ctc_roles.encode_step(calls, step.waveform, place)
                found = await self._search(
                    log_probs, place, calls, speaking.utterance, is_over=is_over
                )
        # Not before: a component that has lost the stream gets the steps before this one again.
        speaking = speaking.with_step(step)
        if not is_over:
            self._state = speaking = _with_partial(speaking, found)
            if self._has_second_pass:
                await self._pass_over(speaking.utterance)
            return
        self._state = speaking.after_utterance(ends=place.ends)
        await self._end_utterance(speaking.utterance, found, calls, rule or "end")

    async def _pass_over(self, utterance: Utterance) -> None:
        """Begin the passes over the open utterance that are due."""

        def audio(span: Span) -> SpeechSegment:
            return self._spoken(utterance, span)

        so_far = Span(utterance.start, self._num_samples)
        await self._passes.after_step(self._endpointer.speech, so_far, audio, utterance.words)

    async def _keep_alive(self, calls: Calls) -> None:
        """Send empty calls to encoder and search, so that they do not drop the stream."""
        state = replace(self._state, called=time.monotonic())
        place = self._enter(state, ends=False)
        try:
            nothing = await ctc_roles.encode_step(calls, NO_SAMPLES, place)
            found = await self._search(nothing, place, calls, self._utterance, is_over=False)
        except ComponentAwayError:
            if isinstance(state, Speaking):
                await self._begin_again(state, place, calls)
            else:
                self._leave_child()
                self._state = replace(state, called=None)
            return
        if isinstance(state, Speaking):
            self._state = _with_partial(state, found)

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

    def _find_endpoint(self, step: Step) -> Rule | None:
        """Return the rule that ends the utterance after a step, or None."""
        self._num_samples += len(step.waveform)
        rule = self._endpointer.push(step.speech)
        if rule is not None:
            self._metrics.add(ENDPOINTS, rule=rule)
        return rule

    async def _find_speech(self, samples: Array, calls: Calls) -> SpeechProbs:
        if not len(samples):
            return SpeechProbs(samples, VAD_FRAME_SAMPLES)
        probs, state = await roles.find_speech(calls, samples, self._vad_state)
        self._vad_state = state.numpy().copy()  # the handle would keep the server's memory
        return SpeechProbs(probs, VAD_FRAME_SAMPLES)

    async def _end_utterance(
        self, utterance: Utterance, found: CtcDecoded, calls: Calls, endpoint: str
    ) -> None:
        """Add the utterance to the segments, rescored if asked, and start its second pass."""
        speech = self._endpointer.speech
        self._endpointer.restart()
        span = speech_span(
            speech, Span(utterance.start, self._num_samples), self.options.vad_pad_ms
        )
        span = Span(max(span.start, self._told_until), max(span.end, self._told_until))
        best = found.nbest[0]
        text = await self._passes.end_utterance()
        if speech.first is None and not best.text:
            return
        spoken = self._spoken(utterance, span)
        before = self._history.latest_text
        heard = Heard(replace(spoken, said_before=saying(before)), calls)
        nbest = await rescored(found.nbest, heard, self._search_options, calls)
        segment = Segment(
            start=round(span.start / SAMPLE_RATE, 3),
            end=round(span.end / SAMPLE_RATE, 3),
            nbest=tuple(nbest[: self.options.nbest]),
            words=found.words[nbest[0].text] if self.options.word_timestamps else (),
            index=self._history.end,
            endpoint=endpoint,
        )
        if self._has_second_pass:
            segment = _with_passes(segment, text, found.words.get(best.text, ()), self.options)
            self._firm[segment.index] = text_of_words(text.firm)
        segment = told_by_ctc(segment, self.options, self._config)
        recognised = segment.text
        if not self._has_second_pass:
            segment = await self._with_text_steps(segment, calls)
        self._history.append(segment, recognised)
        if self._has_second_pass:
            is_whispers = text.heard_until > 0
            await self._second_passes.begin(segment, span, spoken, is_whispers=is_whispers)

    async def _with_text_steps(self, segment: Segment, calls: Calls) -> Segment:
        """Return an utterance of a stream without a second pass in its final form."""
        return await with_text_steps_if_possible(segment, self.options, calls, is_whispers=False)

    def _is_ahead(self) -> bool:
        """Return whether the stream is sent faster than it is spoken."""
        return self._speed.is_ahead(self._num_samples, time.monotonic())

    def _spoken(self, utterance: Utterance, span: Span) -> SpeechSegment:
        """Return the audio of a span of an utterance, in samples of the stream.

        Without a second pass there is no audio.
        """
        seconds = span.start / SAMPLE_RATE
        begins, steps = utterance.steps_after(span.start)
        if not steps or not self._has_second_pass:
            return SpeechSegment(seconds, NO_SAMPLES, NO_SAMPLES)
        start, end = span.start - begins, span.end - begins
        waveform = np.concatenate([step.waveform for step in steps])[start:end]
        if self.options.vad:
            speech_probs = np.concatenate([step.speech.probs for step in steps])
            speech_probs = frames_between(speech_probs, start, end)
        else:
            speech_probs = speech_likeness(waveform)
        log_probs = None
        if utterance.log_probs:
            whole = np.concatenate(utterance.log_probs)
            length = sum(len(step.waveform) for step in utterance.steps)
            start, end = span.start - utterance.start, span.end - utterance.start
            log_probs = share_of(whole, start / length, end / length).copy()
        return SpeechSegment(seconds, waveform, speech_probs, log_probs)

    def _transcript(
        self, changed: Sequence[int], since: int, calls: Calls, *, ends: bool
    ) -> Transcript:
        """Return the answer to a chunk.

        Args:
            changed: Indices of its segments.
            since: Index of the first utterance of its text.
            calls: Calls of the chunk's request.
            ends: Whether the chunk is the last.
        """
        segments = self._history.since(since)
        texts = [segment.text for segment in segments]
        pending = self._second_passes.first
        if pending is None:
            stable = list(texts)
        else:
            stable = texts[: pending - since]
            stable.append(self._firm.get(pending, ""))
        utterance = self._open_utterance() if self.options.partials else None
        if utterance:
            texts.append(utterance.text)
            if pending is None:
                stable.append(text_of_words(utterance.firm))
        if ends:
            nbest = joined([segment.nbest for segment in segments], self.options.nbest)
        else:
            score = sum((segment.nbest[0].score for segment in segments), self._utterance.score)
            nbest = (Hypothesis(joined_text(texts), score, am_score=score),)
        language, probability, translated_from = language_of(segments)
        first = min(changed, default=self._history.end)
        newest = self._history.since(first)
        return Transcript(
            nbest=nbest,
            segments=tuple(newest[index - first] for index in changed),
            duration=round(self._num_samples / SAMPLE_RATE, 3),
            path=calls.path,
            stages=calls.stages,
            is_final=ends,
            stable=joined_text(stable),
            utterance=utterance,
            rolling=self._passes.report if self._has_second_pass else None,
            language=language,
            language_probability=probability,
            translated_from=translated_from,
        )

    def _open_utterance(self) -> OpenUtterance | None:
        """Return the utterance that is being spoken, as it is to be shown."""
        if not isinstance(self._state, Speaking):
            return None
        utterance = self._state.utterance
        until = self._num_samples / SAMPLE_RATE
        start = round(utterance.start / SAMPLE_RATE, 3)
        if self._has_second_pass:
            text = self._passes.text
            spoken_until = self._endpointer.speech.after_last / SAMPLE_RATE
            tentative, newest = text.shown(
                utterance.words, until, in_speech=spoken_until > text.heard_until - NO_PAUSE_S
            )
            return OpenUtterance(start, text.firm, tentative, newest, round(text.heard_until, 3))
        stable = utterance.stable
        unstable = whole_words(utterance.words[len(stable) :], until)
        return OpenUtterance(start, stable, (), tuple(unstable))

    @property
    def _utterance(self) -> Utterance:
        """The present utterance, or an empty one."""
        return self._state.utterance if isinstance(self._state, Speaking) else Utterance()

    @property
    def _has_second_pass(self) -> bool:
        return self.options.mode == "two_pass"


async def _has_attention(calls: Calls) -> bool:
    return await calls.is_loaded("attention_encoder") and await calls.is_loaded("attention_decoder")


def _with_partial(speaking: Speaking, found: CtcDecoded) -> Speaking:
    """Return the state with the present text of the first pass.

    Words that were stable stay so while the text begins with them: a search that has begun again
    knows fewer of them to be.
    """
    best = found.nbest[0]
    num_stable = len(found.stable.split())
    before = speaking.utterance
    if num_stable < before.num_stable and best.text.startswith(text_of_words(before.stable)):
        num_stable = before.num_stable
    return speaking.with_words(found.words[best.text], num_stable, best.score)


def _with_passes(
    segment: Segment, text: LiveText, first_pass: Sequence[Word], options: RecognitionOptions
) -> Segment:
    """Return an ended utterance with what its passes have found, before its second pass."""
    if not text.heard_until:
        return segment
    tentative, newest = text.shown(first_pass, math.inf, in_speech=False)
    words = (*text.firm, *tentative, *newest)
    best = replace(segment.nbest[0], text=text_of_words(words))
    return replace(
        segment,
        nbest=(best, *segment.nbest[1:]),
        words=words if options.word_timestamps else (),
    )


async def both(one: Awaitable[One], other: Awaitable[Other]) -> tuple[One, Other]:
    """Await two awaitables at the same time, both to their end even if one fails.

    Raises:
        BaseException: the first error of the two, after both have ended.
    """
    first, second = await asyncio.gather(one, other, return_exceptions=True)
    for found in (first, second):
        if isinstance(found, BaseException):
            raise found
    return cast(tuple[One, Other], (first, second))


def endpoint_rules(options: RecognitionOptions) -> EndpointRules:
    """Return the endpoint rules of a request's options.

    The rule length always holds: the search keeps all frames of an utterance, and looks at all of
    them for each chunk.
    """
    waits = options.endpointing
    return EndpointRules(
        threshold=options.vad_threshold,
        silence_ms=options.endpoint_silence_ms if waits else math.inf,
        no_speech_ms=options.endpoint_no_speech_ms if waits else math.inf,
        length_s=options.max_utterance_s,
    )
