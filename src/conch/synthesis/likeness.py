"""The option `reference`: the voice for a recording, found once for each."""

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from conch.audio.recording import file_recording
from conch.bls.calls import Calls
from conch.component import FloatArray
from conch.families import likening
from conch.wire.errors import AudioError, OptionError
from conch.wire.known_speakers import KnownSpeaker
from conch.wire.synthesis import SynthesisOptions
from conch.wire.voices import reference_of

MOST_S = 20.0
"""Longest recording, in seconds."""
KEPT = 256
"""Recordings whose voices are kept, the latest requested ones."""


@dataclass(frozen=True, slots=True)
class Style:
    voice: str
    """Value of the components' parameter `voice`."""
    similarity: float


class References:
    def __init__(self, *, is_allowed: bool) -> None:
        self._is_allowed = is_allowed
        self._styles: OrderedDict[bytes, Style] = OrderedDict()
        """Styles by the hash of the recording, whose name says nothing of the voice."""

    async def style_of(self, options: SynthesisOptions, calls: Calls) -> Style | None:
        """Return the style of a request with a reference; None for one without."""
        if (speaker := reference_of(options.reference)) is None:
            return None
        if not self._is_allowed:
            raise OptionError(
                "option 'reference' is not taken by this server; conch serve "
                "--voices-from-recordings takes it, of those whose consent you have"
            )
        key = hashlib.sha256(options.reference.encode()).digest()
        if key not in self._styles:
            self._styles[key] = await self._asked(speaker, calls)
        self._styles.move_to_end(key)
        while len(self._styles) > KEPT:
            self._styles.popitem(last=False)
        return self._styles[key]

    async def _asked(self, speaker: KnownSpeaker, calls: Calls) -> Style:
        component = likening().voice_style
        await calls.need((component,))
        if speaker.embedding is None:
            inputs = {"waveform": await asyncio.to_thread(_read, speaker.audio)}
        else:
            inputs = {"embedding": speaker.embedding}
        found = await calls(component, inputs, ("style", "similarity"))
        voice = found["style"].numpy().item()
        return Style(voice.decode(), round(float(found["similarity"].numpy().item()), 3))


def _read(data: bytes) -> FloatArray:
    try:
        recording = file_recording(data, MOST_S)
        (blocks,) = recording.channels.values()
        return np.concatenate([*blocks], dtype=np.float32)
    except AudioError as error:
        raise AudioError(f"option 'reference': {error}") from None
