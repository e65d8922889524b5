"""What the benchmark sends."""

import io

import numpy as np
import soundfile

from conch.cli.demo import SPEECH

LANGUAGE = "en"
PATIENT_S = 3600.0
"""Longest wait for an answer, in seconds; the server does not know it."""


def speech_of(seconds: int) -> bytes:
    """Return a WAV file of this many seconds: the sample of `conch demo`, repeated."""
    samples, rate = soundfile.read(SPEECH, dtype="int16")
    file = io.BytesIO()
    soundfile.write(file, np.resize(samples, seconds * rate), rate, format="WAV")
    return file.getvalue()
