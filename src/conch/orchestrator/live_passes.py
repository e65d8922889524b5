"""The passes over a live stream's open utterance: rolling ones, and the one in a pause.

A rolling pass is Whisper's greedy text of the latest audio. The pass in a pause is the second pass
of the utterance, begun as soon as its audio is complete: if the pause becomes an endpoint, its text
is there at once; if the speaker goes on, it counts as a rolling pass.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from conch.component.waveform import SAMPLE_RATE
from conch.orchestrator import roles
from conch.orchestrator.calls import Calls
from conch.orchestrator.endpointing import SHORT_PAUSE_MS, Speech, speech_span
from conch.orchestrator.live_text import LiveText, is_credible
from conch.orchestrator.load import Allowed, Pace
from conch.orchestrator.metrics import PASS_LATE_SECONDS, PASSES
from conch.orchestrator.pass_queue import SharedPasses
from conch.orchestrator.segmentation import Span
from conch.orchestrator.speech import SpeechSegment
from conch.wire.errors import public_error
from conch.wire.options import RecognitionOptions
from conch.wire.result import RollingPasses, Segment, Word

logger = logging.getLogger(__name__)

LEAST_SAMPLES = SAMPLE_RATE
"""Shortest audio of a rolling pass: of less, Whisper makes up the rest."""
EARLY = 0.8
"""Share of the interval that must pass on the wall clock, too: a file may be sent faster than it
was spoken."""
AT_PAUSE = 0.5
"""Share of the interval after which a short pause is enough for the next pass: it hears whole
words, and the speaker may be done."""
AHEAD_MS = 640
"""How long before the endpoint its second pass begins."""

Audio = Callable[[Span], SpeechSegment]
"""From a part of the stream, in samples, to its audio."""


@dataclass(slots=True)
class _InPause:
    """The second pass that was begun in a pause."""

    span: Span
    result: asyncio.Task[Segment]


class LivePasses:
    """The passes over the open utterance of one live stream."""

    def __init__(
        self,
        options: RecognitionOptions,
        calls: Calls,
        shared: SharedPasses,
        begin_second: Callable[[SpeechSegment], asyncio.Task[Segment]],
    ) -> None:
        """Start without an utterance.

        Args:
            options: Options of the stream.
            calls: Calls that may outlive the request of a chunk.
            shared: What the passes of all streams share.
            begin_second: Begins the second pass of some audio.
        """
        self._options, self._calls, self._shared = options, calls, shared
        self._begin_second = begin_second
        self._greedy = replace(
            options, beam_size=1, nbest=1, rescore=False, ctc_rescore=False, attention_rescore=False
        )
        self.is_rolling = options.decoder == "attention" and options.rolling_pass_ms > 0
        """Whether the stream has rolling passes, as far as load allows."""
        self.text = LiveText()
        """What the passes have found of the open utterance."""
        self._utterance = 0
        """Number of the open utterance; passes of an earlier one are of no use."""
        self._rolling: asyncio.Task[None] | None = None
        self._begun_until: int | None = None
        """End of the audio of the latest rolling pass that was begun, in samples."""
        self._begun_at = -float("inf")
        """When it was begun."""
        self._due_since: float | None = None
        """When the next one was due first."""
        self._in_pause: _InPause | None = None
        self._applying: set[asyncio.Task[None]] = set()
        self._report = RollingPasses(0)

    @property
    def report(self) -> RollingPasses:
        """What was spent on rolling passes so far, and their present interval."""
        return replace(self._report, interval_ms=self._interval_ms)

    async def after_step(
        self, speech: Speech, utterance: Span, audio: Audio, first_pass: Sequence[Word]
    ) -> None:
        """Begin the passes that are due after a step of the utterance.

        Args:
            speech: Where the speech of the utterance is.
            utterance: The utterance so far, in samples.
            audio: Returns the audio of a part of it.
            first_pass: Words of the CTC model so far.
        """
        if speech.first is None:
            return
        if not self._options.adaptive:
            await self.settled()
        pad_ms = self._options.vad_pad_ms
        span = speech_span(speech, utterance, pad_ms)
        quiet_ms = 1000 * (utterance.end - speech.after_last) // SAMPLE_RATE
        # Only with all of its padding, the second pass at the endpoint gets the same audio.
        if quiet_ms >= max(pad_ms, SHORT_PAUSE_MS, self._options.endpoint_silence_ms - AHEAD_MS):
            is_new = self._in_pause is None or self._in_pause.span != span
            if is_new and self._may(Allowed.PAUSES):
                self._begin_in_pause(span, audio, first_pass)
                return
        if self.is_rolling:
            is_paused = quiet_ms >= SHORT_PAUSE_MS
            self._begin_rolling_if_due(span, audio, first_pass, is_paused=is_paused)

    def ended(self, span: Span) -> asyncio.Task[Segment] | None:
        """Close the utterance; return its second pass if one was begun with the same audio.

        Args:
            span: The audio of the second pass, in samples.
        """
        early, self._in_pause = self._in_pause, None
        self._utterance += 1
        self.text = LiveText()
        self._begun_until = self._due_since = None
        if early is None:
            return None
        if early.span != span:
            early.result.cancel()
            return None
        return early.result

    async def settled(self) -> None:
        """Wait until the passes that were begun have given their text."""
        running = [*self._applying, *([self._rolling] if self._rolling else [])]
        await asyncio.gather(*running, return_exceptions=True)

    def cancel(self) -> None:
        """Cancel all passes."""
        if self._in_pause:
            self._in_pause.result.cancel()
        for task in (*self._applying, self._rolling):
            if task:
                task.cancel()

    @property
    def _pace(self) -> Pace:
        return self._shared.load.pace if self._options.adaptive else Pace()

    @property
    def _interval_ms(self) -> int:
        if not self.is_rolling:
            return 0
        return self._pace.interval_ms(self._options.rolling_pass_ms, self._options.priority)

    def _may(self, kind: Allowed) -> bool:
        return self._pace.allowed(self._options.priority) >= kind

    def _begin_rolling_if_due(
        self, span: Span, audio: Audio, first_pass: Sequence[Word], *, is_paused: bool
    ) -> None:
        interval = self._interval_ms * SAMPLE_RATE // 1000
        begun_until = span.start if self._begun_until is None else self._begun_until
        least = round(interval * (AT_PAUSE if is_paused else 1))
        if not interval or span.end - begun_until < least or span.length < LEAST_SAMPLES:
            return
        now = time.monotonic()
        if self._options.adaptive and now - self._begun_at < EARLY * least / SAMPLE_RATE:
            return
        if self._due_since is None:
            self._due_since = now
        if self._rolling and not self._rolling.done():
            return
        asked = self._options.rolling_pass_ms * SAMPLE_RATE // 1000
        too_short = (LEAST_SAMPLES - 1) // asked if self._begun_until is None else 0
        self._count(skipped=max(0, (span.end - begun_until) // asked - 1 - too_short))
        due, self._due_since = self._due_since, None
        self._begun_at, self._begun_until = now, span.end
        self._rolling = asyncio.create_task(
            self._roll(self._utterance, span, audio, first_pass, due, interval / SAMPLE_RATE)
        )

    async def _roll(
        self,
        utterance: int,
        span: Span,
        audio: Audio,
        first_pass: Sequence[Word],
        due: float,
        interval_s: float,
    ) -> None:
        async def make() -> tuple[SpeechSegment, Sequence[Word]] | None:
            if utterance != self._utterance:
                return None
            begins = self.text.window_start(span.start / SAMPLE_RATE)
            speech = audio(Span(max(span.start, round(begins * SAMPLE_RATE)), span.end))
            encoded = await roles.encode(self._calls, speech.waveform, is_rolling=True)
            _, words = await roles.decode(self._calls, encoded, self._greedy, speech.start)
            return speech, words

        try:
            found = await self._shared.queue.run(make, due=due, is_second=False)
        except Exception as failure:
            logger.warning("a rolling pass failed: %s", public_error(failure))
            self._calls.count(PASSES, kind="rolling", outcome="failed")
            return
        now = time.monotonic()
        self._shared.load.pass_took(now - due, interval_s, now)
        self._calls.count(PASS_LATE_SECONDS, now - due)
        self._report = replace(self._report, late_ms=round(1000 * (now - due)))
        if found:
            speech, words = found
            self._apply(utterance, words, speech, first_pass)

    def _begin_in_pause(self, span: Span, audio: Audio, first_pass: Sequence[Word]) -> None:
        if self._in_pause:
            self._in_pause.result.cancel()
        speech = audio(span)
        result = self._begin_second(speech)
        self._in_pause = _InPause(span, result)
        self._begun_until, self._due_since = span.end, None
        applying = asyncio.create_task(
            self._apply_in_pause(self._utterance, result, speech, first_pass)
        )
        self._applying.add(applying)
        applying.add_done_callback(self._applying.discard)

    async def _apply_in_pause(
        self,
        utterance: int,
        result: asyncio.Task[Segment],
        speech: SpeechSegment,
        first_pass: Sequence[Word],
    ) -> None:
        await asyncio.wait((result,))
        if not result.cancelled() and not result.exception():
            self._apply(utterance, result.result().words, speech, first_pass)

    def _apply(
        self,
        utterance: int,
        words: Sequence[Word],
        speech: SpeechSegment,
        first_pass: Sequence[Word],
    ) -> None:
        if utterance != self._utterance or speech.end <= self.text.heard_until:
            return
        if not is_credible(words, speech.start, speech.end, first_pass):
            self._count(refused=1)
            return
        self._count(made=1)
        self.text = self.text.after_pass(words, speech.start, speech.end, first_pass)

    def _count(self, *, made: int = 0, skipped: int = 0, refused: int = 0) -> None:
        for outcome, number in (("made", made), ("skipped", skipped), ("refused", refused)):
            if number:
                self._calls.count(PASSES, number, kind="rolling", outcome=outcome)
        self._report = replace(
            self._report,
            made=self._report.made + made,
            skipped=self._report.skipped + skipped,
            refused=self._report.refused + refused,
        )
