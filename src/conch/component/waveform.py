"""The waveforms of components: 16 kHz mono, in frames for the VAD."""

SAMPLE_RATE = 16_000
"""Samples per second of every waveform that a component takes."""
VAD_FRAME_SAMPLES = 512
"""Samples per speech probability: 32 ms, the frame of Silero VAD."""
VAD_STATE_SIZE = 320
"""Values of the VAD's memory: h and c of Silero's LSTM, 128 each, and the last 64 samples."""
