"""Another system on the same conversations: Resemblyzer's voices, clustered by spectralcluster.

Windows of 1.6 s, four a second, where the VAD finds speech, have an embedding each (Wan et al.,
2018, https://arxiv.org/abs/1710.10467). They are clustered as in Wang et al., 2018
(https://arxiv.org/abs/1710.10468). Both packages are used with the settings of their authors.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import soxr

from conch.bench.header import Flat
from conch.bench.turns import NO_ERRORS, SpeakerErrors, errors
from conch.component.waveform import SAMPLE_RATE
from conch.scoring import missing
from conch.wire.errors import BenchError
from conch.wire.result import Turn
from lab.speakers.conversations import Condition, Conversation, speech_spans

PACKAGES = ("resemblyzer", "spectralcluster", "webrtcvad", "librosa", "sklearn")
INSTALL = "pip install --no-deps resemblyzer spectralcluster webrtcvad-wheels"
WINDOWS_PER_S = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerFigures:
    """The figures of the other system on conversations of one kind."""

    condition: Condition
    speakers: int
    errors: Flat[SpeakerErrors]
    der: float
    right: int
    """Conversations whose number of speakers was found."""
    conversations: int
    cpu_s_per_audio_s: float


def require_peer() -> None:
    """Check that the packages are installed.

    Raises:
        BenchError: one is missing.
    """
    if lacking := missing(*PACKAGES):
        raise BenchError(f"--peer needs {' and '.join(lacking)}: {INSTALL}")


def measured(condition: Condition, speakers: int, made: Sequence[Conversation]) -> PeerFigures:
    """Return the figures of the other system on some conversations."""
    total, right, began = NO_ERRORS, 0, time.process_time()
    for item in made:
        found = turns(soxr.resample(item.waveform, item.sample_rate, SAMPLE_RATE))
        total += errors(item.turns, found)
        right += len({turn.speaker for turn in found}) == item.speakers
    audio_s = sum(item.duration_s for item in made)
    return PeerFigures(
        condition=condition,
        speakers=speakers,
        errors=total,
        der=round(total.rate, 4),
        right=right,
        conversations=len(made),
        cpu_s_per_audio_s=round((time.process_time() - began) / audio_s, 4),
    )


def turns(waveform: Any) -> list[Turn]:
    """Return who speaks when in a waveform, float32 `[samples]` at 16 kHz."""
    # They are installed for this alone.
    from resemblyzer import VoiceEncoder
    from spectralcluster import configs

    encoder = VoiceEncoder("cpu", verbose=False)
    _, sounds, windows = encoder.embed_utterance(waveform, return_partials=True, rate=WINDOWS_PER_S)
    middles = np.array([(window.start + window.stop) / 2 for window in windows])
    spans = speech_spans(waveform, (0, len(waveform)))
    is_speech = np.any([(start <= middles) & (middles < end) for start, end in spans], axis=0)
    labels = np.full(len(middles), -1)
    labels[is_speech] = configs.icassp2018_clusterer.predict(sounds[is_speech])
    found = []
    for start, end in spans:
        places = np.flatnonzero((start <= middles) & (middles < end))
        if not len(places):
            places = np.array([np.abs(middles - (start + end) / 2).argmin()])
        edges = [start, *(middles[places[:-1]] + middles[places[1:]]) / 2, end]
        for place, left, right in zip(places, edges[:-1], edges[1:], strict=True):
            found.append(Turn(str(labels[place]), left / SAMPLE_RATE, right / SAMPLE_RATE))
    return found
