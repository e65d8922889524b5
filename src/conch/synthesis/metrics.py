"""Metrics of synthesis."""

from conch.bls.metrics import Metric

SPOKEN_SECONDS = Metric("conch_spoken_seconds_total", "Seconds of audio made of texts")
FIRST_AUDIO_SECONDS = Metric(
    "conch_first_audio_seconds_total", "Time from a text to the first of its audio"
)
