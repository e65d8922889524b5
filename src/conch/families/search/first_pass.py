"""The first pass of a live stream: streaming encoder and search, under an id of their own.

Both keep the state of the stream. If one of them loses it, both begin again with the audio of the
open utterance. Each call carries only the tensors and parameters that it needs, because each is
copied between three processes.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable
from dataclasses import dataclass, replace

import numpy as np

from conch.bls.call import ComponentAwayError, Parameter
from conch.bls.calls import Calls
from conch.component import SAMPLE_RATE, Array
from conch.families.search import ENDS_TURN
from conch.families.search.recogniser import (
    COLUMNS,
    EncodedFrames,
    Seconds,
    decoded,
    search_parameters,
    within,
)
from conch.recognition.hooks import EndFirm, FirstPass
from conch.recognition.live.state import NO_SAMPLES, LiveUtterance
from conch.recognition.metrics import STREAMS_RESUMED
from conch.recognition.speech import WORD_COLUMNS, Decoded, SpeechProbs, hypotheses_of, words_of
from conch.wire.entry_points import ChunkPosition
from conch.wire.options import RecognitionOptions
from conch.wire.result import text_of_words

logger = logging.getLogger(__name__)

STEPS_AGAIN = 8
"""Steps in a call that brings a component to where it was: the streams of a batch wait for it."""


@dataclass(frozen=True, slots=True)
class _Encoded:
    frames: EncodedFrames
    speech: SpeechProbs | None
    behind_s: float
    """Seconds of audio whose frames come later."""
    frame_s: float = 0.0
    """Length of a frame; 0 where none is kept."""


@dataclass(frozen=True, slots=True)
class _KeptFrames:
    """The frames of an utterance, step by step, for a second pass that asks for them."""

    steps: tuple[EncodedFrames, ...] = ()

    def part(self, start: float, end: float) -> EncodedFrames:
        whole = np.concatenate([step.numpy() for step in self.steps])
        seconds = sum(step.seconds for step in self.steps)
        lens = np.array([len(whole)], np.int32)
        return EncodedFrames(self.steps[0].name, whole, lens, seconds).part(start, end)


class SearchFirstPass(FirstPass):
    """Encoder and search of one live stream, one component or two; a family says which."""

    encoder: str
    decoder: str
    frames: str
    """Tensor from the encoder to the search."""
    keeps_for: str = ""
    """Encoder of recordings whose output a second pass may ask for; empty if none does."""
    says_end = False
    """Whether the search may say that the speaker has finished, by `ENDS_TURN`."""

    def __init__(
        self,
        options: RecognitionOptions,
        detached: Calls,
        keep_alive_s: float,
        end_firm: EndFirm | None,
    ) -> None:
        self._options = options.of_first_pass()
        self._keeps_frames = bool(self.keeps_for) and options.ctc_rescore
        self._detached, self._keep_alive_s, self._end_firm = detached, keep_alive_s, end_firm
        # Not the client's id, because two clients may choose the same.
        self._child = uuid.uuid4().hex
        """Id of the stream in encoder and search."""
        self._called: float | None = None
        """Time of the components' last call, on the monotonic clock; None if they keep no state."""
        self._step: tuple[Array, _Encoded, ChunkPosition] | None = None
        """A step that is encoded, and not searched yet."""
        self._behind_s = 0.0
        """Seconds of audio before the open utterance whose frames come with it."""
        self._leaving: set[asyncio.Task[None]] = set()
        """Tasks that end the stream where it went on under another id."""

    def parameters(self, options: RecognitionOptions) -> dict[str, Parameter]:
        return search_parameters(options)

    def encoder_parameters(self, options: RecognitionOptions) -> dict[str, Parameter]:
        """Return what the encoder takes with START."""
        return {}

    async def hear(
        self,
        waveform: Array,
        utterance: LiveUtterance,
        calls: Calls,
        *,
        ends: bool,
        finds_speech: bool = False,
    ) -> tuple[LiveUtterance, SpeechProbs | None]:

        def encode(position: ChunkPosition) -> Awaitable[_Encoded]:
            return self._encode_step(calls, waveform, position, finds_speech=finds_speech)

        position = self._next_position(ends=ends)
        try:
            encoded = await encode(position)
        except ComponentAwayError:
            if position.starts:  # it was repeated, in vain
                raise
            utterance, position = await self._begin_again(utterance, calls, ends=ends)
            encoded = await encode(position)
        self._step = waveform, encoded, position
        return utterance, encoded.speech

    async def read(
        self, utterance: LiveUtterance, calls: Calls, *, is_over: bool
    ) -> tuple[LiveUtterance, Decoded]:
        step, self._step = self._step, None
        assert step is not None, "a step is heard before it is read"
        waveform, encoded, position = step
        if self._keeps_frames:
            utterance = self._with_frames(utterance, encoded)
        try:
            result = await self._search(encoded.frames, position, calls, utterance, is_over=is_over)
        except ComponentAwayError:
            if position.starts:
                raise
            utterance, position = await self._begin_again(utterance, calls, ends=position.ends)
            encoded = await self._encode_step(calls, waveform, position)
            result = await self._search(encoded.frames, position, calls, utterance, is_over=is_over)
        if is_over:
            self._behind_s = encoded.behind_s
        if position.ends:
            self._called, self._child, self._behind_s = None, uuid.uuid4().hex, 0.0
        return utterance, result

    async def keep_alive(
        self, utterance: LiveUtterance | None, calls: Calls
    ) -> LiveUtterance | None:
        if self._called is None or time.monotonic() - self._called <= self._keep_alive_s:
            return utterance
        position = self._next_position(ends=False)
        try:
            encoded = await self._encode_step(calls, NO_SAMPLES, position)
            result = await self._search(
                encoded.frames, position, calls, utterance or LiveUtterance()
            )
        except ComponentAwayError:
            if utterance:
                utterance, _ = await self._begin_again(utterance, calls, ends=False)
            else:
                self._leave_child()
                self._called = None
            return utterance
        return utterance and utterance.with_text(result)

    async def close(self) -> None:
        """Free the components' state, unless an end that was read has done it."""
        if self._called is not None:
            self._called = None
            self._leave_child()
        await asyncio.gather(*self._leaving)

    def _next_position(self, *, ends: bool) -> ChunkPosition:
        """Return the position of the next calls in the components' stream, which the first open."""
        position = ChunkPosition(self._child, starts=self._called is None, ends=ends)
        self._called = time.monotonic()
        return position

    def _leave_child(self) -> None:
        """Free what encoder and search keep of the stream; it may begin there under a new id."""
        position = ChunkPosition(self._child, starts=False, ends=True)
        leaving = asyncio.create_task(self._end(position))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)
        self._child, self._behind_s = uuid.uuid4().hex, 0.0

    async def _search(
        self,
        frames: EncodedFrames,
        position: ChunkPosition,
        calls: Calls,
        utterance: LiveUtterance,
        *,
        is_over: bool = False,
    ) -> Decoded:
        """Return the text of an utterance after its next frames; after the last, all scores too."""
        options, start = self._options, utterance.start / SAMPLE_RATE
        parameters = self.parameters(options) if position.starts else {}
        if position.starts and options.mode == "two_pass":
            # Hotwords that the search cannot write may be for the second pass.
            parameters["skip_foreign"] = True
        if is_over:
            parameters["is_over"] = True
        ending = (ENDS_TURN,) * self.says_end
        so_far = ("hypotheses", "scores", "stable", "num_words", *WORD_COLUMNS, *ending)
        outputs = await calls(
            self.decoder,
            frames.inputs,
            COLUMNS if is_over else so_far,
            parameters,
            position,
            work=options.beam_size if position.starts else 1,
        )
        span = Seconds(start, start + utterance.seconds + frames.seconds)
        if is_over:
            return decoded(outputs, options, start - self._behind_s, span)
        nbest = hypotheses_of(outputs)
        words = within(words_of(outputs, start - self._behind_s), span)
        best = words[: outputs["num_words"].numpy()[0]]
        stable = outputs["stable"].numpy()[0].decode()
        ends_turn = any(outputs[name].numpy()[0] for name in ending)
        return Decoded(nbest, {nbest[0].text: best}, stable, ends_turn=ends_turn)

    async def _begin_again(
        self, utterance: LiveUtterance, calls: Calls, *, ends: bool
    ) -> tuple[LiveUtterance, ChunkPosition]:
        """Bring encoder and search to where they were before a step, as a stream of a new id.

        Heard without the audio before the utterance, other words may come out. If firm ones do,
        they become a segment, and what is behind them is heard as an utterance of its own. Return
        the utterance before the step, and the place of the step's calls.
        """
        logger.warning("a component has lost a stream, which goes on with the audio that is kept")
        calls.count(STREAMS_RESUMED)
        again, position = await self._hear_again(utterance, calls, ends=ends)
        if self._end_firm and not again.text.startswith(text_of_words(utterance.stable)):
            left = await self._end_firm(utterance, calls)
            again, position = await self._hear_again(left, calls, ends=ends)
        return again, position

    async def _hear_again(
        self, utterance: LiveUtterance, calls: Calls, *, ends: bool
    ) -> tuple[LiveUtterance, ChunkPosition]:
        """Send the audio of the open utterance to encoder and search, as a stream of a new id."""
        self._leave_child()
        num_stable = utterance.num_stable
        position = ChunkPosition(self._child, starts=True, ends=ends)
        kept = utterance.steps
        for first in range(0, len(kept), STEPS_AGAIN):
            steps = np.concatenate([step.waveform for step in kept[first : first + STEPS_AGAIN]])
            then, position = replace(position, ends=False), replace(position, starts=False)
            frames = (await self._encode_step(calls, steps, then)).frames
            utterance = utterance.with_text(await self._search(frames, then, calls, utterance))
        num_stable = min(max(num_stable, utterance.num_stable), len(utterance.words))
        return replace(utterance, num_stable=num_stable), position

    async def _encode_step(
        self, calls: Calls, waveform: Array, position: ChunkPosition, *, finds_speech: bool = False
    ) -> _Encoded:
        """Return the encoder's output for FP32 [samples], with speech probabilities if wanted."""
        if self.encoder == self.decoder:
            return _Encoded(EncodedFrames.of_samples(waveform), None, 0.0)
        speech = ("speech_probs", "frame_samples") if finds_speech else ()
        kept = ("frame_samples",) if self._keeps_frames else ()
        wanted = tuple(
            dict.fromkeys((self.frames, f"{self.frames}_lens", "behind_samples", *speech, *kept))
        )
        parameters = self.encoder_parameters(self._options) if position.starts else {}
        outputs = await calls(self.encoder, {"waveform": waveform}, wanted, parameters, position)
        frames = EncodedFrames.of(self.frames, outputs, waveform)
        behind_s = outputs["behind_samples"].numpy().item() / SAMPLE_RATE
        frame_s = sum(outputs[name].numpy().item() for name in kept) / SAMPLE_RATE
        if not finds_speech:
            return _Encoded(frames, None, behind_s, frame_s)
        probs, frame_samples = (outputs[name].numpy() for name in speech)
        return _Encoded(frames, SpeechProbs(probs, frame_samples.item()), behind_s, frame_s)

    async def _end(self, position: ChunkPosition) -> None:
        """Free the components' state of a stream that ends without its last samples."""
        calls, lens = self._detached, f"{self.frames}_lens"
        no_samples: dict[str, Array] = {"waveform": NO_SAMPLES}
        if self.encoder == self.decoder:
            ends = [calls(self.decoder, no_samples, ("scores",), sequence=position)]
        else:
            no_frames = {self.frames: NO_SAMPLES[:, None], lens: np.zeros(1, np.int32)}
            ends = [
                calls(self.encoder, no_samples, (lens,), sequence=position),
                calls(self.decoder, no_frames, ("scores",), sequence=position),
            ]
        results = await asyncio.gather(*ends, return_exceptions=True)
        for error in results:
            # A component that is away, or was, has nothing left to free.
            if isinstance(error, BaseException) and not isinstance(error, ComponentAwayError):
                logger.warning(
                    "END of the components' stream %s failed: %r", position.stream_id, error
                )

    def _with_frames(self, utterance: LiveUtterance, encoded: _Encoded) -> LiveUtterance:
        """Return an utterance with a step's frames too; none if they are not of its audio."""
        before = utterance.encoded.get(self.keeps_for, _KeptFrames())
        assert isinstance(before, _KeptFrames)
        # A copy: the handle would keep the server's memory.
        step = replace(encoded.frames, frames=encoded.frames.numpy().copy())
        # At the end of a stream an encoder may hear silence behind the audio.
        surplus_s = len(step.numpy()) * encoded.frame_s - step.seconds
        is_apart = self._behind_s or encoded.behind_s or surplus_s > encoded.frame_s
        if is_apart or len(before.steps) < len(utterance.steps):
            return replace(utterance, encoded={})
        kept = _KeptFrames((*before.steps, step))
        return replace(utterance, encoded={self.keeps_for: kept})
