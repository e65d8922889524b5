"""Audio as people have it, turned block by block into 16 kHz mono: nothing is held whole twice."""

from conch.audio.blocks import AudioBlocks
from conch.audio.recording import Recording, file_recording, waveform_recording
from conch.audio.stream import StreamAudio

__all__ = ["AudioBlocks", "Recording", "StreamAudio", "file_recording", "waveform_recording"]
