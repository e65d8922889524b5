"""Speech as a client asks for it and gets it, in one piece or in many."""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conch.client import tensors
from conch.wire.errors import ServerError, TextError
from conch.wire.result import Stage, summed_stages
from conch.wire.sentences import parts
from conch.wire.synthesis import Spoken, SynthesisOptions, joined

IN_PARTS = ("pcm_f32", "pcm_s16")
"""Formats whose audio can be joined: they have no header."""


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
        """Whether there is any audio."""
        return bool(len(self.waveform) or self.audio)


Speak = Callable[[tensors.Request], AsyncGenerator[Speech, None]]


def speech_requests(
    text: str,
    timeout_s: float | None,
    model: str,
    request_id: str,
    options: Mapping[str, tensors.OptionValue],
    *,
    default_timeout_s: float,
) -> Iterator[tensors.Request]:
    """Check a text and options, and return the requests for the parts of the text.

    Raises:
        OptionError: an option is unknown, mistyped or out of range.
        TextError: the text is no Unicode.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TextError(f"the text takes what UTF-8 can write: {error}") from None
    parsed = SynthesisOptions.parse(options)
    parameters = {name: getattr(parsed, name) for name in options}
    limits = tensors.time_limits(timeout_s)
    outputs = ("WAVEFORM" if parsed.format == "pcm_f32" else "AUDIO", "RESULT")
    for part in parts(text) if parsed.format in IN_PARTS else (text,):
        yield tensors.Request(
            model=model,
            inputs={"TEXT": np.array([[part.encode()]], np.object_)},
            parameters={**limits, **parameters},
            timeout_s=default_timeout_s if timeout_s is None else timeout_s,
            request_id=request_id,
            outputs=outputs,
        )


async def spoken_parts(
    speak: Speak, requests: Iterator[tensors.Request]
) -> AsyncGenerator[Speech, None]:
    """Yield the answers to the parts of a text as those to one, and ask for each in its turn."""
    began_s, stages, warnings = 0.0, list[Mapping[str, Stage]](), tuple[str, ...]()
    ended: Speech | None = None
    """The last piece of the part before, which alone has figures."""
    silent = TextError("the text is empty")
    for request in requests:
        if ended is not None and ended.has_sound:
            yield replace(ended, spoken=replace(ended.spoken, stages={}, warnings=()))
        try:
            async with aclosing(speak(request)) as answers:
                async for answer in answers:
                    piece = replace(answer, spoken=_later(answer.spoken, began_s))
                    if answer.spoken.stages:
                        ended = piece
                    else:
                        yield piece
        except TextError as error:
            silent = error
            continue
        if ended is None:
            raise ServerError("the server has not ended its answer")
        began_s = ended.spoken.duration
        stages.append(ended.spoken.stages)
        warnings += ended.spoken.warnings
    if ended is None:
        raise silent
    whole = replace(ended.spoken, stages=summed_stages(stages), warnings=warnings)
    yield replace(ended, spoken=whole)


def _later(spoken: Spoken, seconds: float) -> Spoken:
    sentences = tuple(item.later(seconds) for item in spoken.sentences)
    return replace(spoken, duration=round(seconds + spoken.duration, 4), sentences=sentences)


def whole_of(pieces: Sequence[Speech]) -> Speech:
    """Return the pieces of a streamed answer as one."""
    spoken = joined([piece.spoken for piece in pieces])
    waveform = np.concatenate([piece.waveform for piece in pieces])
    return Speech(waveform, b"".join(piece.audio for piece in pieces), spoken)


def speech_of(tensor: Callable[[str], NDArray[Any] | None]) -> Speech:
    """Return the speech of an answer, of which `tensor` returns the tensors by name.

    Raises:
        ServerError: the answer is not one of synthesis.
    """
    result, samples, file = tensor("RESULT"), tensor("WAVEFORM"), tensor("AUDIO")
    if result is None or result.size != 1:
        raise ServerError("expected the output RESULT of a model that speaks")
    spoken = Spoken.from_json(bytes(result.item()))
    waveform = np.zeros(0, np.float32) if samples is None else samples.ravel()
    return Speech(waveform, b"" if file is None else bytes(file.item()), spoken)
