"""Requests for speaker labels on plain components."""

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from audio_files import audio_file
from plain_components import PlainComponents
from plain_recognizer import recognizer_on
from plain_streams import audio

from conch.recognition.request import RecognitionRequest
from conch.wire.result import Transcript

SPOKEN = audio("..1111.....5555.....1111....")
MODELS = ("speaker_segmentation", "speaker_embedding")


def file_of(waveform: Any) -> bytes:
    return audio_file(waveform, 16_000, "FLOAT")


def answer(
    sent: Any,
    *,
    streamed: bool = False,
    limits: Mapping[str, Any] = MappingProxyType({}),
    **options: Any,
) -> tuple[list[Transcript], PlainComponents]:
    """Return the answers to a waveform or a file, and the components that were called."""
    components = PlainComponents()
    recognizer = recognizer_on(components, **limits)
    if isinstance(sent, bytes):
        request = RecognitionRequest(audio=np.array([[sent]], object), parameters=options)
    else:
        request = RecognitionRequest(wav=np.atleast_2d(sent), parameters=options)

    async def parts() -> list[Transcript]:
        if not streamed:
            return await recognizer.recognize(request, components)
        return [part async for part in recognizer.stream(request, components)]

    return asyncio.run(parts()), components
