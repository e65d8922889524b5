"""Check in pauses of an utterance, by signs besides silence, whether the speaker has finished."""

import asyncio
import logging
from collections.abc import Callable

from conch.audio.segmentation import Span
from conch.bls.calls import Calls
from conch.component import SAMPLE_RATE
from conch.recognition.hooks import EndOfTurn
from conch.recognition.live.endpointing import FINISHED_MS, Speech
from conch.recognition.speech import SpeechSegment
from conch.wire.errors import public_error

logger = logging.getLogger(__name__)

FINISHED = 0.95
"""Least probability of an end at which silence need not decide: docs/notes/endpoints.md."""


class TurnEnd:
    """Asks once in each pause of a live stream's utterances whether the speaker has finished."""

    def __init__(self, ask: EndOfTurn, calls: Calls) -> None:
        self._ask, self._calls = ask, calls
        self._pause = -1
        """Start of the latest pause that was checked, in samples of the stream."""
        self._asking: asyncio.Task[float] | None = None

    def after_step(
        self, speech: Speech, utterance: Span, audio: Callable[[Span], SpeechSegment]
    ) -> None:
        """Ask if there is a pause at the end of the utterance so far, of which `audio` gives parts.

        The answer comes later: no step waits for it.
        """
        quiet_ms = 1000 * (utterance.end - speech.after_last) // SAMPLE_RATE
        is_asked = self._pause == speech.after_last
        if speech.first is None or quiet_ms < FINISHED_MS or is_asked:
            return
        self.cancel()
        self._pause = speech.after_last
        self._asking = asyncio.create_task(self._asked(audio(utterance)))

    def has_finished(self, speech: Speech) -> bool:
        """Return whether the speaker has finished with this speech, as far as is known."""
        if self._asking is None or not self._asking.done() or self._pause != speech.after_last:
            return False
        return self._asking.result() >= FINISHED

    async def settled(self) -> None:
        """Wait for all checks that have begun."""
        if self._asking:
            await asyncio.wait((self._asking,))

    def cancel(self) -> None:
        """Drop the check that is under way."""
        if self._asking:
            self._asking.cancel()

    async def _asked(self, speech: SpeechSegment) -> float:
        try:
            return await self._ask(self._calls, speech.waveform)
        except Exception as failure:  # silence alone decides then
            logger.warning("an end of turn is not found: %s", public_error(failure))
            return 0.0
