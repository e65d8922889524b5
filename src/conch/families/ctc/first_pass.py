"""The first pass of a live stream by CTC: streaming encoder and search, under an id of their own.

Both keep the state of the stream. If one of them loses it, both begin again with the audio of the
open utterance.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from conch.bls.calls import Calls
from conch.bls.errors import ComponentAwayError
from conch.component import Array
from conch.component.waveform import SAMPLE_RATE
from conch.families.ctc import stubs
from conch.families.ctc.stubs import LogProbs
from conch.recognition.decoded import Decoded
from conch.recognition.hooks import EndFirm, FirstPass
from conch.recognition.live.endpointing import SpeechProbs
from conch.recognition.live.state import NO_SAMPLES, Utterance
from conch.recognition.metrics import STREAMS_RESUMED
from conch.wire.options import RecognitionOptions
from conch.wire.result import text_of_words
from conch.wire.stream_place import StreamPlace

logger = logging.getLogger(__name__)

STEPS_AGAIN = 8
"""Steps in a call that brings a component to where it was: the streams of a batch wait for it."""

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class _Step:
    """A step that was heard and not read yet."""

    waveform: Array
    log_probs: LogProbs
    place: StreamPlace


@dataclass(frozen=True, slots=True)
class _KeptLogProbs:
    """The log probabilities of an utterance, step by step, for a second pass that asks for them."""

    steps: tuple[Array, ...] = ()

    def part(self, start: float, end: float) -> LogProbs:
        """See `Frames.part`."""
        whole = np.concatenate(self.steps)
        return LogProbs(whole, np.array([len(whole)], np.int32)).part(start, end)


class CtcFirstPass(FirstPass):
    """Encoder and search of one live stream."""

    encoder = stubs.STREAMING_ENCODER

    def __init__(
        self,
        options: RecognitionOptions,
        detached: Calls,
        keep_alive_s: float,
        end_firm: EndFirm | None,
    ) -> None:
        """See `BeginFirstPass`."""
        self._options = options.of_first_pass()
        self._keeps_log_probs = options.ctc_rescore
        self._detached, self._keep_alive_s, self._end_firm = detached, keep_alive_s, end_firm
        # Not the client's id, because two clients may choose the same.
        self._child = uuid.uuid4().hex
        """Id of the stream in encoder and search."""
        self._called: float | None = None
        """Time of their last call, on the monotonic clock; None if they keep no state."""
        self._step: _Step | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        """Tasks that end the stream where it went on under another id."""

    async def hear(
        self, waveform: Array, utterance: Utterance, calls: Calls, *, ends: bool
    ) -> Utterance:
        """See `FirstPass.hear`."""
        log_probs, utterance, place = await self._encode(
            stubs.encode_step, waveform, utterance, calls, ends=ends
        )
        self._step = _Step(waveform, log_probs, place)
        return utterance

    async def hear_and_find_speech(
        self, waveform: Array, utterance: Utterance, calls: Calls, *, ends: bool
    ) -> tuple[Utterance, SpeechProbs]:
        """See `FirstPass.hear_and_find_speech`."""
        (speech, log_probs), utterance, place = await self._encode(
            stubs.encode_and_find_speech, waveform, utterance, calls, ends=ends
        )
        self._step = _Step(waveform, log_probs, place)
        return utterance, speech

    async def read(
        self, utterance: Utterance, calls: Calls, *, is_over: bool
    ) -> tuple[Utterance, Decoded]:
        """See `FirstPass.read`."""
        step, self._step = self._step, None
        assert step is not None, "a step is heard before it is read"
        place = step.place
        if self._keeps_log_probs:
            utterance = _with_log_probs(utterance, step.log_probs)
        try:
            found = await self._search(step.log_probs, place, calls, utterance, is_over=is_over)
        except ComponentAwayError:
            if place.starts:
                raise
            utterance, place = await self._begin_again(utterance, calls, ends=place.ends)
            log_probs = await stubs.encode_step(calls, step.waveform, place)
            found = await self._search(log_probs, place, calls, utterance, is_over=is_over)
        if place.ends:
            self._called, self._child = None, uuid.uuid4().hex
        return utterance, found

    async def keep_alive(self, utterance: Utterance | None, calls: Calls) -> Utterance | None:
        """See `FirstPass.keep_alive`."""
        if self._called is None or time.monotonic() - self._called <= self._keep_alive_s:
            return utterance
        place = self._place(ends=False)
        try:
            nothing = await stubs.encode_step(calls, NO_SAMPLES, place)
            found = await self._search(
                nothing, place, calls, utterance or Utterance(), is_over=False
            )
        except ComponentAwayError:
            if utterance:
                utterance, _ = await self._begin_again(utterance, calls, ends=False)
            else:
                self._leave_child()
                self._called = None
            return utterance
        return utterance and utterance.with_text(found)

    async def close(self) -> None:
        """See `FirstPass.close`. An end that was read has freed the state."""
        if self._called is not None:
            self._called = None
            self._leave_child()
        await asyncio.gather(*self._leaving)

    def _place(self, *, ends: bool) -> StreamPlace:
        """Return the place of the next calls in the components' stream; the first ones open it."""
        place = StreamPlace(self._child, starts=self._called is None, ends=ends)
        self._called = time.monotonic()
        return place

    def _leave_child(self) -> None:
        """Free what encoder and search keep of the stream; it may begin there under a new id."""
        place = StreamPlace(self._child, starts=False, ends=True)
        leaving = asyncio.create_task(stubs.end(self._detached, place))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)
        self._child = uuid.uuid4().hex

    async def _encode(
        self,
        encode: Callable[[Calls, Array, StreamPlace], Awaitable[Found]],
        waveform: Array,
        utterance: Utterance,
        calls: Calls,
        *,
        ends: bool,
    ) -> tuple[Found, Utterance, StreamPlace]:
        """Call the encoder for a step, and begin its stream again if it has lost it.

        Returns:
            What the encoder found; the utterance before the step, and the place of the search's
            call.
        """
        place = self._place(ends=ends)
        try:
            return await encode(calls, waveform, place), utterance, place
        except ComponentAwayError:
            if place.starts:  # it was repeated, in vain
                raise
            utterance, place = await self._begin_again(utterance, calls, ends=ends)
            return await encode(calls, waveform, place), utterance, place

    async def _search(
        self,
        log_probs: LogProbs,
        place: StreamPlace,
        calls: Calls,
        utterance: Utterance,
        *,
        is_over: bool,
    ) -> Decoded:
        return await stubs.decode_step(
            calls,
            log_probs,
            self._options,
            place,
            start=utterance.start / SAMPLE_RATE,
            is_over=is_over,
        )

    async def _begin_again(
        self, utterance: Utterance, calls: Calls, *, ends: bool
    ) -> tuple[Utterance, StreamPlace]:
        """Bring encoder and search to where they were before a step, as a stream of a new id.

        Heard without the audio before the utterance, other words may come out. If firm ones do,
        they become a segment, and what is behind them is heard as an utterance of its own.

        Returns:
            The utterance before the step, and the place of the step's calls.
        """
        logger.warning("a component has lost a stream, which goes on with the audio that is kept")
        calls.count(STREAMS_RESUMED)
        again, place = await self._hear_again(utterance, calls, ends=ends)
        if self._end_firm and not again.text.startswith(text_of_words(utterance.stable)):
            left = await self._end_firm(utterance, calls)
            again, place = await self._hear_again(left, calls, ends=ends)
        return again, place

    async def _hear_again(
        self, utterance: Utterance, calls: Calls, *, ends: bool
    ) -> tuple[Utterance, StreamPlace]:
        """Send the audio of the open utterance to encoder and search, as a stream of a new id."""
        self._leave_child()
        num_stable = utterance.num_stable
        place = StreamPlace(self._child, starts=True, ends=ends)
        kept = utterance.steps
        for first in range(0, len(kept), STEPS_AGAIN):
            steps = np.concatenate([step.waveform for step in kept[first : first + STEPS_AGAIN]])
            then, place = replace(place, ends=False), replace(place, starts=False)
            log_probs = await stubs.encode_step(calls, steps, then)
            found = await self._search(log_probs, then, calls, utterance, is_over=False)
            utterance = utterance.with_text(found)
        num_stable = min(max(num_stable, utterance.num_stable), len(utterance.words))
        return replace(utterance, num_stable=num_stable), place


def _with_log_probs(utterance: Utterance, log_probs: LogProbs) -> Utterance:
    """Return an utterance that keeps the log probabilities of a further step."""
    before = utterance.encoded.get(stubs.ENCODER, _KeptLogProbs())
    assert isinstance(before, _KeptLogProbs)
    # A copy: the handle would keep the server's memory.
    kept = _KeptLogProbs((*before.steps, log_probs.numpy().copy()))
    return replace(utterance, encoded={stubs.ENCODER: kept})
