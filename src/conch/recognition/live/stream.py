"""The path of live audio: steps → VAD and first pass → endpoints → the text so far.

With mode `two_pass`, a second recogniser passes over the open utterance now and then, and over each
utterance when it has ended.

Before speech begins, only the VAD is called. Without the VAD, the first pass shows where speech is.
This saves one call per step of speech.

A client's chunks are cut into steps of equal length. So the answers depend on the audio alone, and
not on the length of the chunks.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TypeVar, cast

import numpy as np

from conch.audio.blocks import LiveAudio
from conch.audio.segmentation import Span, speech_likeness
from conch.bls.calls import Calls
from conch.component import SAMPLE_RATE, VAD_FRAME_SAMPLES, Array
from conch.recognition.config import RecognitionConfig
from conch.recognition.hooks import (
    Encodings,
    FirstPass,
    decoder_of,
    end_of_turn,
    first_pass_of,
    in_stream,
    prepared,
    served,
    speech_finder,
)
from conch.recognition.languages import may_be_in, with_only_language
from conch.recognition.live.answers import LiveAnswers, Present
from conch.recognition.live.endpointing import (
    SOON_S,
    Endpointer,
    Rule,
    SpeechExtent,
    TurnEnd,
    endpoint_rules,
    is_pause,
    speech_span,
)
from conch.recognition.live.rolling_passes import LivePasses
from conch.recognition.live.scheduling import PassedStream, SharedPasses
from conch.recognition.live.sending_speed import SendingSpeed
from conch.recognition.live.state import NO_SAMPLES, LiveStep, LiveUtterance, State, Waiting
from conch.recognition.live.text import LiveText, with_live_text
from conch.recognition.live.turn_events import TurnEvents
from conch.recognition.metrics import ENDPOINTS
from conch.recognition.segment import rescored
from conch.recognition.speech import Decoded, SpeechProbs, known_text
from conch.recognition.text.steps import check_text_models, with_text_steps_if_possible
from conch.wire.needs import components_of
from conch.wire.options import RecognitionOptions
from conch.wire.result import Hypothesis, Segment, Transcript, Word, text_of_words

One = TypeVar("One")
Other = TypeVar("Other")


class StreamRecognizer:
    """One live stream: its state between chunks, and the path of each chunk."""

    def __init__(
        self,
        options: RecognitionOptions,
        audio: LiveAudio,
        detached: Calls,
        config: RecognitionConfig,
        shared: SharedPasses,
        others: Iterable[RecognitionOptions] | None = None,
    ) -> None:
        self.audio = audio
        self._detached, self._config, self._shared = detached, config, shared
        self._others = others
        """Options to fall back on, in this order, if the server lacks the decoder of `options`."""
        self._is_chosen = False
        """Whether `_choose` was called, by the first chunk."""
        self._state: State = Waiting()
        self._segment_until = 0
        """End of the firm words that became a segment in mid-utterance, in samples."""
        self._vad_state: Array | None = None
        self._ahead: Array = NO_SAMPLES
        """Speech probabilities of the frames that the VAD has heard of the incomplete step."""
        self._endpointer = Endpointer(endpoint_rules(options))
        self._num_samples = 0
        self._speed = SendingSpeed(self._shared.clock())
        self._use(options)

    def _use(self, options: RecognitionOptions) -> None:
        """Set up what the options choose; nothing was heard before."""
        begin = in_stream(options)
        self._labels = begin(options, self._detached) if begin else None
        """Labels of speakers; None if not requested."""
        if self._labels:
            options = replace(options, word_timestamps=True)
        self.options = options
        stream = PassedStream(options, self._detached, self._shared, self._config, self._is_ahead)
        self._passes = LivePasses(stream) if options.mode == "two_pass" else None
        self._answers = LiveAnswers(options, self._config, self._passes, self._labels)
        ask = end_of_turn(options)
        self._turn_end = TurnEnd(ask, self._detached) if ask else None
        self._turn_events = TurnEvents(options) if options.turn_events else None
        self._first_pass: FirstPass = first_pass_of(options)(
            options,
            self._detached,
            # The components would drop the stream after `stream_ttl_s`.
            self._config.stream_ttl_s / 4,
            None if self._passes else self._end_firm,
        )

    async def recognize(
        self,
        steps: Sequence[tuple[Array, bool]],
        calls: Calls,
        *,
        ends: bool,
        repeats_text: bool = False,
        pause_ms: float | None = None,
    ) -> Transcript:
        """Recognise a chunk; return the news of the transcript, or the final one at the end.

        The segments of the transcript are those that are new or replaced since the last answer.
        Its text begins with the first utterance that is one of them or may still change. With
        `repeats_text`, the option or the argument, it repeats `history_s` seconds. The final
        transcript has the text and the segments of these seconds too. So answers do not grow with
        the stream. After an error the stream must be closed.

        `steps` are those of `audio` for the chunk, each with whether it is the last. `pause_ms` is
        the silence that a chunk without audio stands for.
        """
        if not self._is_chosen:
            await self._choose(calls)
        self._speed.mark(self._num_samples, self._shared.clock())
        # A pause that is told within a step may be over before its end: then an end would be a cut.
        may_end = not self._turn_events or is_pause(self._endpointer.speech, self._num_samples)
        for step, is_last in steps:
            await self._note_turn(self._endpointer.speech)
            if self._labels and self._is_ahead():
                await self._labels.settled()
            began = self._shared.clock()
            await self._recognize_step(step, calls, ends=is_last)
            if self.options.adaptive and not self._is_ahead():  # or the step has waited for passes
                now = self._shared.clock()
                self._shared.load.step_took(now - began, now)
        speech = self._endpointer.speech if ends else await self._listen_ahead(calls)
        if await self._note_turn(speech) and may_end and self.options.adaptive:
            pause_ms = pause_ms or 0.0
        if pause_ms is not None and self.options.endpointing and not ends:
            await self._hear_pause(pause_ms, calls)
        if not ends:
            kept = await self._first_pass.keep_alive(self._utterance, calls)
            self._state = kept or self._state
        elif self._passes:
            await self._passes.second.finish()
        if self._passes:
            await self._passes.settled()
        if self._labels and not self.options.adaptive:
            await self._labels.settled()
        if self._labels and ends:
            self._answers.relabel(await self._labels.finish())
        # The passes since the last answer, which no chunk's request has called.
        calls.adopt(self._detached)
        present = Present(self._num_samples, self._utterance, self._endpointer.speech)
        repeats_text = repeats_text or self.options.repeat_text
        answer = self._answers.after_chunk(present, calls, ends=ends, repeats_text=repeats_text)
        if self._turn_events:
            answer = replace(answer, turn_events=self._turn_events.take())
        return answer

    async def close(self) -> None:
        """Free the components' state of the stream, unless its end has freed it."""
        if self._passes:
            self._passes.cancel()
        if self._turn_end:
            self._turn_end.cancel()
        if self._labels:
            self._labels.cancel()
        await self._first_pass.close()

    async def _choose(self, calls: Calls) -> None:
        """Choose the passes by the models that the server has, if the client left that open.

        Also finish the options that take calls. The mode is `streaming` without a second
        recogniser, and that recogniser alone if the first pass is missing or knows another
        language. A requested mode stays.
        """
        self._is_chosen = True
        chosen = await served(self.options, self._others, calls)
        await calls.need(components_of(chosen))
        chosen, self._others = await prepared(chosen, calls), None
        if chosen is not self.options:
            self._use(chosen)
        await check_text_models(self.options, calls)
        if self._passes and self._passes.is_rolling and self.options.vad:
            fits = may_be_in(self._config.first_pass_language, self.options)
            encoder = decoder_of(self.options.of_first_pass()).live[0]
            if not (fits and await calls.is_loaded(encoder)):
                self._first_pass = FirstPass()

    async def _note_turn(self, speech: SpeechExtent) -> bool:
        """Note what is known of the turn; return whether the speaker has finished."""
        is_read = speech.after_last == self._endpointer.speech.after_last
        ends_turn = self._utterance is not None and self._utterance.ends_turn and is_read
        probability = 1.0 if ends_turn else 0.0
        if self._turn_end and speech.first is not None and not ends_turn:
            if not self.options.adaptive:
                await self._turn_end.settled()
            elif self._turn_events:
                await self._turn_end.settled(SOON_S)
            probability = self._turn_end.probability(speech)
        if self._turn_events:
            self._turn_events.hear(speech, self._answers.next_index, probability)
        ends = self.options.semantic_endpointing or (ends_turn and self.options.endpointing)
        if not ends or probability < self.options.end_threshold:
            return False
        self._endpointer.finished_at = speech.after_last
        return True

    async def _listen_ahead(self, calls: Calls) -> SpeechExtent:
        """Return the speech so far, with that of the incomplete step if turns are told at once.

        With `adaptive=false`, nothing may depend on the chunks.
        """
        if not (self._turn_events and self.options.vad and self.options.adaptive):
            return self._endpointer.speech
        rest = self.audio.incomplete(VAD_FRAME_SAMPLES)
        step = LiveStep(rest, await self._find_ahead(rest, calls))
        ahead = copy(self._endpointer)
        ahead.push(step.speech)
        until = self._num_samples + len(rest)
        if self._turn_end and is_pause(ahead.speech, until):
            state = self._state
            if isinstance(state, Waiting):
                step = state.pre_roll.followed_by(step)
                state = LiveUtterance(until - len(step.waveform))
            await self._look_at(state.with_step(step), ahead.speech, until)
        return ahead.speech

    async def _hear_pause(self, pause_ms: float, calls: Calls) -> None:
        """End the utterance if the incomplete step, and a pause after it, are silence enough.

        The first pass ends its stream with it: before its end, it takes whole steps only.
        """
        rest = self.audio.incomplete(VAD_FRAME_SAMPLES)
        if not len(rest) and self._endpointer.speech.first is None:
            return
        self._endpointer.pause_ms = pause_ms
        is_over = pause_ms >= self.options.endpoint_silence_ms
        if not is_over and self.options.vad:
            is_over = copy(self._endpointer).push(await self._find_ahead(rest, calls)) == "silence"
        if is_over:
            self.audio.drop(len(rest))
            await self._recognize_step(rest, calls, ends=True)
            # What comes next does not follow on the audio before the pause.
            self._state, self._vad_state = Waiting(), None
        self._endpointer.pause_ms = 0.0

    async def _recognize_step(self, samples: Array, calls: Calls, *, ends: bool) -> None:
        """Recognise a step: by the VAD alone before speech, else by VAD and first pass together."""
        if isinstance(self._state, Waiting) and self.options.vad:
            await self._wait_for_speech(self._state, samples, calls, ends=ends)
        else:
            await self._continue(samples, calls, ends=ends)

    async def _wait_for_speech(
        self, waiting: Waiting, samples: Array, calls: Calls, *, ends: bool
    ) -> None:
        step = LiveStep(samples, await self._find_speech(samples, calls))
        rule = self._find_endpoint(step)
        if self._endpointer.speech.first is None:
            self._state = waiting.after_silence(step)
            if rule is not None:
                self._endpointer.restart()
            return
        step = waiting.pre_roll.followed_by(step)
        utterance = LiveUtterance(self._num_samples - len(step.waveform))
        utterance, _ = await self._first_pass.hear(step.waveform, utterance, calls, ends=ends)
        await self._read(utterance, step, calls, rule, ends=ends)

    async def _continue(self, samples: Array, calls: Calls, *, ends: bool) -> None:
        """Call the first pass for a step, and the VAD if enabled; begin an utterance if needed."""
        utterance = self._utterance or LiveUtterance(self._num_samples)
        if self.options.vad:
            speech, (utterance, _) = await both(
                self._find_speech(samples, calls),
                self._first_pass.hear(samples, utterance, calls, ends=ends),
            )
        else:
            utterance, speech_probs = await self._first_pass.hear(
                samples, utterance, calls, ends=ends, finds_speech=True
            )
            assert speech_probs is not None
            speech = speech_probs
        step = LiveStep(samples, speech)
        rule = self._find_endpoint(step)
        await self._read(utterance, step, calls, rule, ends=ends)

    async def _read(
        self,
        utterance: LiveUtterance,
        step: LiveStep,
        calls: Calls,
        rule: Rule | None,
        *,
        ends: bool,
    ) -> None:
        is_over = rule is not None or ends
        utterance, decoded = await self._first_pass.read(utterance, calls, is_over=is_over)
        # Not before: a component that has lost the stream gets the steps before this one again.
        utterance = utterance.with_step(step)
        if is_over:
            self._state = Waiting()
            await self._end_utterance(utterance, decoded, calls, rule or "end")
            return
        self._state = utterance = utterance.with_text(decoded)
        await self._look_at(utterance, self._endpointer.speech, self._num_samples)

    async def _look_at(self, utterance: LiveUtterance, speech: SpeechExtent, until: int) -> None:
        """Begin what is due after the audio of an utterance up to a sample."""
        audio = partial(utterance.spoken, has_vad=self.options.vad)
        so_far = Span(utterance.start, until)
        if self._turn_end:
            self._turn_end.after_step(speech, so_far, audio)
        if self._passes:
            await self._passes.after_step(speech, so_far, audio, utterance.words)

    async def _end_firm(self, utterance: LiveUtterance, calls: Calls) -> LiveUtterance:
        """Make a segment of the firm words of an open utterance; return the rest of it."""
        words, left = utterance.after_firm()
        if words:
            span = self._speech_of(utterance)
            best = Hypothesis(text_of_words(words), utterance.score, am_score=utterance.score)
            segment = self._segment(span, (best,), words, "length")
            segment = replace(segment, end=words[-1].end)
            self._answers.add(await self._finished(segment, calls), segment.text)
            self._segment_until = round(words[-1].end * SAMPLE_RATE)
            self._endpointer.skip(self._segment_until)
            if self._turn_events:
                self._turn_events.end()
        return left

    async def _end_utterance(
        self, utterance: LiveUtterance, decoded: Decoded, calls: Calls, endpoint: str
    ) -> None:
        """Make a segment of the utterance, rescored if requested, and start its second pass."""
        speech, span = self._endpointer.speech, self._speech_of(utterance)
        self._endpointer.restart()
        if self._turn_events:
            self._turn_events.end()
        span = Span(max(span.start, self._segment_until), max(span.end, self._segment_until))
        passed = await self._passes.end_utterance() if self._passes else LiveText()
        if speech.first is None and not decoded.nbest[0].text:
            return
        # Without a second pass nothing needs the audio.
        whole = utterance if self._passes else LiveUtterance(utterance.start)
        spoken = whole.spoken(span, has_vad=self.options.vad)
        encodings = Encodings(
            replace(spoken, said_before=known_text(self._answers.latest_text)), calls
        )
        nbest = await rescored(decoded.nbest, encodings, self.options.of_first_pass(), calls)
        words = decoded.words.get(nbest[0].text, ())
        segment = self._segment(span, nbest[: self.options.nbest], words, endpoint)
        if self._passes is None:
            self._answers.add(await self._finished(segment, calls), segment.text)
            return
        words = decoded.words.get(decoded.nbest[0].text, ())
        segment = with_live_text(segment, passed, words, has_words=self.options.word_timestamps)
        segment = with_only_language(segment, self.options, self._config)
        self._answers.add(segment, segment.text, text_of_words(passed.firm))
        is_punctuated = passed.pass_end_s > 0 and self.options.writes_punctuation
        spoken = replace(spoken, draft=segment.text)
        await self._passes.second.begin(segment, span, spoken, is_punctuated=is_punctuated)

    def _segment(
        self, span: Span, nbest: Sequence[Hypothesis], words: tuple[Word, ...], endpoint: str
    ) -> Segment:
        """Return the segment of an utterance; its span is in samples."""
        return Segment(
            start=round(span.start / SAMPLE_RATE, 3),
            end=round(span.end / SAMPLE_RATE, 3),
            nbest=tuple(nbest),
            words=words if self.options.word_timestamps else (),
            index=self._answers.next_index,
            endpoint=endpoint,
        )

    def _speech_of(self, utterance: LiveUtterance) -> Span:
        """Return the speech of the utterance so far with padding, in samples."""
        whole = Span(utterance.start, self._num_samples)
        return speech_span(self._endpointer.speech, whole, self.options.vad_pad_ms)

    def _find_endpoint(self, step: LiveStep) -> Rule | None:
        self._num_samples += len(step.waveform)
        if self._labels:
            has_vad = self.options.vad
            probs = step.speech.probs if has_vad else speech_likeness(step.waveform)
            self._labels.hear(step.waveform, probs)
        rule = self._endpointer.push(step.speech)
        if self._turn_events:
            self._turn_events.hear(self._endpointer.speech, self._answers.next_index)
        if rule is not None:
            self._detached.count(ENDPOINTS, rule=rule)
        return rule

    async def _find_speech(self, samples: Array, calls: Calls) -> SpeechProbs:
        found = await self._find_ahead(samples, calls)
        self._ahead = NO_SAMPLES
        return found

    async def _find_ahead(self, samples: Array, calls: Calls) -> SpeechProbs:
        """Return the speech probabilities of the next step so far, and keep them for the rest."""
        if len(new := samples[len(self._ahead) * VAD_FRAME_SAMPLES :]):
            probs, state = await speech_finder()(calls, new, self._vad_state)
            self._vad_state = state.numpy().copy()  # the handle would keep the server's memory
            self._ahead = np.concatenate([self._ahead, probs])
        return SpeechProbs(self._ahead, VAD_FRAME_SAMPLES)

    async def _finished(self, segment: Segment, calls: Calls) -> Segment:
        """Return an utterance of a stream without a second pass in its final form."""
        segment = with_only_language(segment, self.options, self._config)
        is_punctuated = self.options.writes_punctuation
        return await with_text_steps_if_possible(
            segment, self.options, calls, is_punctuated=is_punctuated
        )

    def _is_ahead(self) -> bool:
        return self._speed.is_ahead(self._num_samples, self._shared.clock())

    @property
    def _utterance(self) -> LiveUtterance | None:
        return self._state if isinstance(self._state, LiveUtterance) else None


async def both(one: Awaitable[One], other: Awaitable[Other]) -> tuple[One, Other]:
    """Await two awaitables at the same time, both to their end; then raise the first error."""
    first, second = await asyncio.gather(one, other, return_exceptions=True)
    for result in (first, second):
        if isinstance(result, BaseException):
            raise result
    return cast(tuple[One, Other], (first, second))
