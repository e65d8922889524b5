"""The waveforms of components: 16 kHz mono, in frames for the VAD."""

SAMPLE_RATE = 16_000
"""Samples per second of every waveform that a component takes."""
VAD_FRAME_SAMPLES = 512
"""Samples per speech probability: 32 ms, the frame of Silero VAD."""
