"""The waveforms that components take: 16 kHz mono, in frames for the voice activity detector."""

SAMPLE_RATE = 16_000
"""Samples per second of every waveform behind the entry points."""
VAD_FRAME_SAMPLES = 512
"""Samples per speech probability: 32 ms, the frame of Silero VAD."""
