"""The passes over a live stream's open utterance: rolling ones, and the one in a pause.

A rolling pass is the recogniser's greedy text of the latest audio. The pass in a pause is the
second pass of the utterance, begun as soon as its audio is complete. If the pause becomes an
endpoint, the text is there at once. If the speaker goes on, the pass counts as a rolling one.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from conch.audio.segmentation import Span
from conch.component import SAMPLE_RATE
from conch.recognition.hooks import decoder_of, recogniser_of
from conch.recognition.languages import with_language
from conch.recognition.live.endpointing import SHORT_PAUSE_MS, SpeechExtent, speech_span
from conch.recognition.live.scheduling import Allowed, Pace, PassedStream, Rank
from conch.recognition.live.second_passes import SecondPasses
from conch.recognition.live.text import LiveText, is_credible
from conch.recognition.metrics import PASS_LATE_SECONDS, PASSES
from conch.recognition.speech import SpeechSegment
from conch.wire.errors import public_error
from conch.wire.result import RollingPasses, Segment, Word

logger = logging.getLogger(__name__)

LEAST_SAMPLES = SAMPLE_RATE
"""Shortest audio of a rolling pass: of less, an attention decoder makes up the rest."""
LEAST_WALL_SHARE = 0.8
"""Share of the interval that must pass on the wall clock, too: a file may be sent faster than it
was spoken."""
AT_PAUSE = 0.5
"""Share of the interval after which a short pause is enough for the next pass: it hears whole
words, and the speaker may be done."""
MOST_FAILURES = 8
"""Most failures of a stream's rolling passes that are logged."""
SURE = 0.9
"""Probability at which the next rolling passes over an utterance take its language as known."""

Audio = Callable[[Span], SpeechSegment]
"""From a part of the stream, in samples, to its audio."""


@dataclass(frozen=True, slots=True)
class _Pass:
    utterance: int
    span: Span
    """Speech so far, in samples."""
    audio: Audio
    first_pass: Sequence[Word]


class LivePasses:
    def __init__(self, stream: PassedStream) -> None:
        self._options = options = stream.options
        self._calls, self._shared, self._is_ahead = stream.calls, stream.shared, stream.is_ahead
        self._step_ms = stream.config.stream_step_ms
        self.second = SecondPasses(stream)
        """The second passes of the stream, which those in pauses may become."""
        self._greedy = replace(
            options, beam_size=1, nbest=1, rescore=False, ctc_rescore=False, attention_rescore=False
        )
        self._recogniser = recogniser_of(options)
        self.is_rolling = decoder_of(options).is_rolling and options.rolling_pass_ms > 0
        """Whether the stream has rolling passes, as far as load allows."""
        self.text = LiveText()
        self._spoken = ""
        """Language of the open utterance, as soon as a rolling pass is sure of it."""
        self._utterance = 0
        """Number of the open utterance; passes of an earlier one are of no use."""
        self._rolling: asyncio.Task[None] | None = None
        self._begun_until: int | None = None
        """End of the audio of the latest rolling pass that was begun, in samples."""
        self._begun_at = -float("inf")
        self._due_since: float | None = None
        """When the next rolling pass was due first."""
        self._following: set[asyncio.Task[None]] = set()
        """Tasks that wait for a second pass that was prepared."""
        self._failures: set[str] = set()
        self._report = RollingPasses(0)

    @property
    def report(self) -> RollingPasses:
        """Counts of the rolling passes so far, and their present interval."""
        return replace(self._report, interval_ms=self._interval_ms)

    async def after_step(
        self, speech: SpeechExtent, utterance: Span, audio: Audio, first_pass: Sequence[Word]
    ) -> None:
        """Begin the passes that are due after a step of the utterance, which is in samples."""
        if speech.first is None:
            return
        await self.settled()
        pad_ms = self._options.vad_pad_ms
        span = speech_span(speech, utterance, pad_ms)
        quiet_ms = 1000 * (utterance.end - speech.after_last) // SAMPLE_RATE
        this = _Pass(self._utterance, span, audio, first_pass)
        # Only with all of its padding, the second pass at the endpoint gets the same audio.
        silence_ms = self._options.endpoint_silence_ms
        least_ms = 0 if self._options.asks_for_ends else silence_ms - self._step_ms
        may_prepare = self._pace.allowed(self._options.stream_priority) >= Allowed.PAUSES
        may_be_over = quiet_ms >= max(pad_ms, SHORT_PAUSE_MS, least_ms)
        if may_be_over and not self.second.is_prepared(span) and may_prepare:
            self._prepare_second(this)
        elif self.is_rolling:
            self._roll_if_due(this, is_paused=quiet_ms >= SHORT_PAUSE_MS)

    async def end_utterance(self) -> LiveText:
        """Close the utterance and return its text; passes that are under way no longer count."""
        await self.settled()
        text, self.text = self.text, LiveText()
        self._utterance += 1
        self._spoken = ""
        self._begun_until = self._due_since = None
        if self._rolling:
            self._rolling.cancel()
        return text

    async def settled(self) -> None:
        """With `adaptive=false`, wait until the passes that were begun have given their text."""
        if not self._options.adaptive:
            running = [*self._following, *([self._rolling] if self._rolling else [])]
            await asyncio.gather(*running, return_exceptions=True)

    def cancel(self) -> None:
        self.second.cancel()
        for task in (*self._following, self._rolling):
            if task:
                task.cancel()

    @property
    def _pace(self) -> Pace:
        return self._shared.load.pace if self._options.adaptive else Pace()

    @property
    def _interval_ms(self) -> int:
        if not self.is_rolling:
            return 0
        return self._pace.interval_ms(self._options.rolling_pass_ms, self._options.stream_priority)

    def _roll_if_due(self, this: _Pass, *, is_paused: bool) -> None:
        requested = self._options.rolling_pass_ms * SAMPLE_RATE // 1000
        interval = self._interval_ms * SAMPLE_RATE // 1000
        if not interval:
            self._due_since = None
            return
        begun_until = this.span.start if self._begun_until is None else self._begun_until
        unheard = this.span.end - begun_until
        least = round(interval * (AT_PAUSE if is_paused else 1))
        if unheard < least or this.span.length < LEAST_SAMPLES:
            return
        now = self._shared.clock()
        since_s = now - self._begun_at
        if self._options.adaptive and since_s < LEAST_WALL_SHARE * least / SAMPLE_RATE:
            return
        if self._due_since is None:
            self._due_since = now
        if self._rolling and not self._rolling.done():
            return
        if not self._is_ahead():
            too_short = (LEAST_SAMPLES - 1) // requested if self._begun_until is None else 0
            self._count("skipped", max(0, unheard // requested - 1 - too_short))
        due, self._due_since = self._due_since, None
        self._begun_at, self._begun_until = now, this.span.end
        self._rolling = asyncio.create_task(self._roll(this, due, interval / SAMPLE_RATE))

    async def _roll(self, this: _Pass, due: float, interval_s: float) -> None:
        async def recognized() -> tuple[SpeechSegment, Sequence[Word]]:
            # Firm words may have come since it was due.
            begins = round(self.text.window_start(this.span.start / SAMPLE_RATE) * SAMPLE_RATE)
            speech = this.audio(Span(max(this.span.start, begins), this.span.end))
            encoded = await self._recogniser.encode_open(self._calls, speech.waveform)
            options, start = with_language(self._greedy, self._spoken), speech.start
            known = self.text.expected(start, this.first_pass, speech.end)
            decoded = await self._recogniser.decode_known(
                self._calls, encoded, options, start, *known
            )
            if this.utterance == self._utterance and (decoded.language_probability or 0.0) >= SURE:
                self._spoken = decoded.language
            text = decoded.nbest[0].text
            if text in decoded.words:
                return speech, decoded.words[text]
            options = with_language(options, decoded.language)
            return speech, await self._recogniser.align(self._calls, encoded, text, options, start)

        rank = Rank.FILE if self._is_ahead() else Rank.ROLLING
        try:
            speech, words = await self._shared.queue.run(recognized, due=due, rank=rank)
            now = self._shared.clock()
            if rank != Rank.FILE:
                self._shared.load.pass_took(now - due, interval_s, now)
            self._calls.count(PASS_LATE_SECONDS, now - due)
            self._report = replace(self._report, late_ms=round(1000 * (now - due)))
            self._apply(this, words, speech)
        except Exception as failure:
            self._calls.count(PASSES, kind="rolling", outcome="failed")
            # Each once: if a model is missing, every pass of the stream fails.
            if len(self._failures) < MOST_FAILURES and repr(failure) not in self._failures:
                self._failures.add(repr(failure))
                logger.warning("rolling passes of a stream fail: %s", public_error(failure))

    def _prepare_second(self, this: _Pass) -> None:
        speech = this.audio(this.span)
        known = self.text.expected(speech.start, this.first_pass, speech.end)
        draft = " ".join(filter(None, known))
        result = self.second.prepare(this.span, replace(speech, draft=draft))
        self._begun_until, self._due_since = this.span.end, None
        following = asyncio.create_task(self._follow(this, result, speech))
        self._following.add(following)
        following.add_done_callback(self._following.discard)

    async def _follow(
        self, this: _Pass, result: asyncio.Task[Segment], speech: SpeechSegment
    ) -> None:
        """Take the words of a second pass that was prepared, if its utterance is still open."""
        await asyncio.wait((result,))
        if not result.cancelled() and not result.exception():
            self._apply(this, result.result().words, speech)

    def _apply(self, this: _Pass, words: Sequence[Word], speech: SpeechSegment) -> None:
        if this.utterance != self._utterance or speech.end <= self.text.pass_end_s:
            return
        window = speech.start, speech.end, this.first_pass
        if is_credible(words, *window):
            self._count("made")
            self.text = self.text.after_pass(words, *window)
        else:
            self._count("refused")

    def _count(self, outcome: Literal["made", "skipped", "refused"], number: int = 1) -> None:
        if number:
            self._calls.count(PASSES, number, kind="rolling", outcome=outcome)
            counted = getattr(self._report, outcome) + number
            self._report = replace(self._report, **{outcome: counted})
