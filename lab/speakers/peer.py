"""Another system on the same conversations: Resemblyzer's voices, clustered by spectralcluster.

Windows of 1.6 s, four a second, where the VAD finds speech, have an embedding each (Wan et al.,
2018, https://arxiv.org/abs/1710.10467). They are clustered as in Wang et al., 2018
(https://arxiv.org/abs/1710.10468). Both packages are used with the settings of their authors.
"""

from typing import Any

import numpy as np

from conch.component import SAMPLE_RATE
from conch.scoring import missing
from conch.wire.errors import BenchError
from conch.wire.result import Turn
from lab.speakers.conversations import speech_spans

PACKAGES = ("resemblyzer", "spectralcluster", "webrtcvad", "librosa", "sklearn")
INSTALL = "pip install --no-deps resemblyzer spectralcluster webrtcvad-wheels"
WINDOWS_PER_S = 4


def require_peer() -> None:
    """Raise a BenchError if a package is missing."""
    if lacking := missing(*PACKAGES):
        raise BenchError(f"--peer needs {' and '.join(lacking)}: {INSTALL}")


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
    labelled = []
    for start, end in spans:
        indices = np.flatnonzero((start <= middles) & (middles < end))
        if not len(indices):
            indices = np.array([np.abs(middles - (start + end) / 2).argmin()])
        edges = [start, *(middles[indices[:-1]] + middles[indices[1:]]) / 2, end]
        for index, left, right in zip(indices, edges[:-1], edges[1:], strict=True):
            labelled.append(Turn(str(labels[index]), left / SAMPLE_RATE, right / SAMPLE_RATE))
    return labelled
