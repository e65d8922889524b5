"""A recogniser on plain components."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conch.bls.call import Components, Deadline
from conch.bls.calls import Calls
from conch.bls.runtime import Runtime
from conch.recognition import RecognitionConfig, Recognizer, own_components
from conch.recognition.request import RecognitionRequest
from conch.wire.result import Transcript


def runtime_on(components: Components, **limits: Any) -> Runtime:
    """Return what the services of a process share, on these components."""
    return Runtime(RecognitionConfig(**limits), own_components(), components)


def recognizer_on(
    components: Components,
    *,
    cores: int | None = None,
    clock: Callable[[], float] = time.monotonic,
    **limits: Any,
) -> Recognizer:
    """Return a recogniser whose calls go to these components."""
    runtime = runtime_on(components, **limits)
    return Recognizer(RecognitionConfig(**limits), runtime, cores, clock)


def speech(*utterances: float | tuple[float, float], pause: float = 3.0) -> NDArray[np.float32]:
    """Return utterances, each of a level and its seconds, one if not given, between pauses."""
    silence = np.zeros(round(pause * 16_000), np.float32)
    parts = [silence]
    for utterance in utterances:
        level, seconds = utterance if isinstance(utterance, tuple) else (utterance, 1.0)
        parts += [np.full(round(seconds * 16_000), level, np.float32), silence]
    return np.concatenate(parts)


def recognized(components: Components, waveform: NDArray[Any], **parameters: Any) -> Transcript:
    """Return the transcript of one recording."""
    request = RecognitionRequest(wav=waveform[np.newaxis], parameters=parameters)
    (found,) = asyncio.run(recognizer_on(components).recognize(request, components))
    return found


def calls_on(components: Components, deadline_ms: int = 0) -> Calls:
    """Return the calls of a live chunk to these components."""
    return runtime_on(components).live_calls(components, "offline", Deadline(deadline_ms))
