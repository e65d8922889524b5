"""What a visit sends, whatever the protocol of its door."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conch.gateway.doors import DEEPGRAM_LISTEN, DEEPGRAM_TURNS, WYOMING_LISTEN, Door
from lab.chaos.speech import RATE, speech, wav_file

SPEECH_S = 2.0
"""Length of the audio: the beginning of a line of verse."""
PIECE = RATE // 4


@dataclass(frozen=True, slots=True)
class Sent:
    parts: tuple[Any, ...]
    """Audio as bytes, texts or JSON. Anything else is a value of a wrong type in their place."""
    options: Mapping[str, Any] = field(default_factory=dict)
    ends: bool = True
    """Whether the client says that nothing more comes; else it waits, and keeps the door open."""
    request_id: str = ""


def honest(door: Door) -> Sent:
    waveform = speech()[: round(SPEECH_S * RATE)]
    match door.takes:
        case "file" | "recordings":
            return Sent((wav_file(waveform),))
        case "live audio":
            return Sent(live(waveform), {} if has_two_passes(door) else {"mode": "streaming"})
        case "text":
            return Sent(("Good evening.",))
        case "live text":
            return Sent(("Good ", "evening."))
        case "transcript":
            return Sent(({"segments": [{"start": 0, "end": 1, "text": "good evening"}]},))
        case "settings":
            return Sent(({},))


def has_two_passes(door: Door) -> bool:
    """Return whether the clients of a door cannot ask for live text of one pass.

    A busy server leaves out second passes.
    """
    return door in (DEEPGRAM_LISTEN, DEEPGRAM_TURNS, WYOMING_LISTEN)


def live(waveform: NDArray[np.float32]) -> tuple[bytes, ...]:
    """Return samples of 16 bits at 16 kHz as frames."""
    pcm = (waveform * 32_767).astype("<i2").tobytes()
    return tuple(pcm[start : start + 2 * PIECE] for start in range(0, len(pcm), 2 * PIECE))
