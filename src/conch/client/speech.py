"""Speech as a client asks for it and gets it, in one piece or in many."""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conch.client import tensors
from conch.wire.errors import DeadlineError, ServerError, TextError
from conch.wire.result import Stage, summed_stages
from conch.wire.sentences import Phrases
from conch.wire.synthesis import MAX_WARNINGS, Spoken, SynthesisOptions, joined

IN_PARTS = ("pcm_f32", "pcm_s16")
"""Formats whose audio can be joined: they have no header."""
PART = 1500
"""Characters after which a part ends with its sentence, and after which no more text is read."""


@dataclass(frozen=True, slots=True)
class Speech:
    """Audio, and what it says."""

    waveform: NDArray[np.float32]
    """Samples in [-1, 1], of format pcm_f32; none of any other."""
    audio: bytes
    """The bytes of a file, or of its next piece, of any other format."""
    spoken: Spoken
    """Sentences with their times, sample rate, duration and path."""

    @property
    def has_sound(self) -> bool:
        return bool(len(self.waveform) or self.audio)


Speak = Callable[[tensors.Request], AsyncGenerator[Speech, None]]


class Parts:
    """A text that is still written, in parts for a request each: all sentences that are there."""

    def __init__(self, longest: float = PART) -> None:
        """End each part of `longest` characters with its sentence."""
        self._longest, self._phrases = longest, Phrases()
        self._full: deque[str] = deque()
        self._changed = asyncio.Event()
        self._has_ended = False
        self._error: Exception | None = None

    def add(self, text: str, *, is_last: bool = False) -> None:
        self._full += self._phrases.added(text, is_last=is_last)
        self._has_ended = is_last
        self._changed.set()

    async def read(self, texts: Iterable[str] | AsyncIterable[str]) -> None:
        """Add texts as they come, no faster than parts are taken; `each` raises their errors."""
        try:
            async with aclosing(_each(texts)) as incoming:
                async for text in incoming:
                    self.add(text)
                    while sum(map(len, self._full)) >= self._longest:
                        await self._next_change()
        except Exception as error:
            self._error = error
        self.add("", is_last=True)

    async def each(self) -> AsyncGenerator[str, None]:
        """Yield the parts, each as soon as it is there and asked for."""
        while True:
            # Without a limit the text is one part.
            while self._full and (self._has_ended or self._longest < math.inf):
                part = ""
                while self._full and len(part) < self._longest:
                    part += self._full.popleft()
                self._changed.set()
                yield part
            if self._has_ended:
                break
            await self._next_change()
        if self._error is not None:
            raise self._error

    async def _next_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


async def _each(texts: Iterable[str] | AsyncIterable[str]) -> AsyncGenerator[str, None]:
    """Yield texts; a plain iterable, which may block, is read in a thread."""
    if isinstance(texts, AsyncIterable):
        async for item in texts:
            yield item
        return
    loop, came = asyncio.get_running_loop(), asyncio.Queue[str | None]()
    wanted, errors, is_left = threading.Semaphore(), list[Exception](), False

    def read() -> None:
        try:
            for text in texts:
                wanted.acquire()
                if is_left:
                    return
                loop.call_soon_threadsafe(came.put_nowait, text)
        except Exception as error:
            errors.append(error)
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(came.put_nowait, None)

    # Nothing waits for it: it may wait for a text that never comes.
    threading.Thread(target=read, name="conch-texts", daemon=True).start()
    try:
        while (text := await came.get()) is not None:
            yield text
            wanted.release()
    finally:
        is_left = True
        wanted.release()
    if errors:
        raise errors[0]


def speech_requests(
    timeout_s: float | None,
    model: str,
    request_id: str,
    options: Mapping[str, tensors.OptionValue],
    *,
    default_timeout_s: float,
) -> Callable[[str, Mapping[str, int]], tensors.Request]:
    """Check options but the voice, and return what makes a request of a text and of more options.

    Raise an OptionError for an option that is unknown, mistyped or out of range. What is returned
    raises a TextError for a text that is no Unicode.
    """
    parsed = SynthesisOptions.parse(options, any_voice=True)
    parameters = {name: getattr(parsed, name) for name in options}
    limits = tensors.time_limits(timeout_s)
    outputs = ("WAVEFORM" if parsed.format == "pcm_f32" else "AUDIO", "RESULT")

    def request(text: str, more: Mapping[str, int]) -> tensors.Request:
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            raise TextError(f"the text takes what UTF-8 can write: {error}") from None
        return tensors.Request(
            model=model,
            inputs={"TEXT": np.array([[data]], np.object_)},
            parameters={**limits, **parameters, **more},
            timeout_s=default_timeout_s if timeout_s is None else timeout_s,
            request_id=request_id,
            outputs=outputs,
        )

    return request


async def spoken_text(
    speak: Speak,
    request: Callable[[str, Mapping[str, int]], tensors.Request],
    text: str | Iterable[str] | AsyncIterable[str],
    options: Mapping[str, tensors.OptionValue],
) -> AsyncGenerator[Speech, None]:
    """Yield the audio of a text, which may come in pieces; see `spoken_parts`."""
    parts = Parts(PART if options.get("format", IN_PARTS[0]) in IN_PARTS else math.inf)
    if isinstance(text, str):
        parts.add(text, is_last=True)
    reading = asyncio.ensure_future(parts.read([] if isinstance(text, str) else text))
    deadline_ms = int(options.get("deadline_ms", 0))
    try:
        async with aclosing(spoken_parts(speak, request, parts.each(), deadline_ms)) as pieces:
            async for piece in pieces:
                yield piece
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def spoken_parts(
    speak: Speak,
    request: Callable[[str, Mapping[str, int]], tensors.Request],
    texts: AsyncIterable[str],
    deadline_ms: int = 0,
) -> AsyncGenerator[Speech, None]:
    """Yield the answers to the parts of a text as those to one, and request each in its turn.

    `request` makes a request, see `speech_requests`; `deadline_ms` is for all parts, 0 for none.
    """
    played_at, began_s, warnings = 0.0, 0.0, tuple[str, ...]()
    stages = list[Mapping[str, Stage]]()
    ended: Speech | None = None
    """The last piece of the part before, which alone has figures."""
    silent = TextError("TEXT takes a text with words; the one that was sent is empty")
    async for text in texts:
        if ended is not None and ended.has_sound:
            yield replace(ended, spoken=replace(ended.spoken, stages={}, warnings=()))
        more = {}
        if began_s:
            more["lead_ms"] = max(0, round(1000 * (played_at + began_s - time.monotonic())))
        if deadline_ms:
            more["deadline_ms"] = round(deadline_ms - sum(part["total"].ms for part in stages))
            if more["deadline_ms"] <= 0:
                raise DeadlineError(f"the deadline of {deadline_ms} ms is over: {began_s:g} s made")
        try:
            async with aclosing(speak(request(text, more))) as answers:
                async for answer in answers:
                    piece = replace(answer, spoken=answer.spoken.later(began_s))
                    if answer.spoken.stages:
                        ended = piece
                        continue
                    played_at = played_at or time.monotonic()
                    yield piece
        except TextError as error:
            silent = error
            warnings = (*warnings, str(error))[:MAX_WARNINGS]
            continue
        if ended is None:
            raise ServerError("the server has not ended its answer")
        began_s = ended.spoken.duration
        stages.append(ended.spoken.stages)
        warnings = (*warnings, *ended.spoken.warnings)[:MAX_WARNINGS]
    if ended is None:
        raise silent
    whole = replace(ended.spoken, stages=summed_stages(stages), warnings=warnings)
    yield replace(ended, spoken=whole)


def whole_of(pieces: Sequence[Speech]) -> Speech:
    spoken = joined([piece.spoken for piece in pieces])
    waveform = np.concatenate([piece.waveform for piece in pieces])
    return Speech(waveform, b"".join(piece.audio for piece in pieces), spoken)


def speech_of(tensor: Callable[[str], NDArray[Any] | None]) -> Speech:
    """Return the speech of an answer by its tensors; raise a ServerError for another answer."""
    result, samples, file = tensor("RESULT"), tensor("WAVEFORM"), tensor("AUDIO")
    if result is None or result.size != 1:
        raise ServerError("expected the output RESULT of a model that speaks")
    try:
        spoken = Spoken.from_json(bytes(result.item()))
    except ValueError as error:
        raise ServerError(
            f"the output RESULT is not that of a model that speaks: {error}"
        ) from None
    waveform = np.zeros(0, np.float32) if samples is None else samples.ravel()
    return Speech(waveform, b"" if file is None else bytes(file.item()), spoken)
