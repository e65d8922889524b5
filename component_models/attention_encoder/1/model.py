"""A segment's waveform to hidden states."""

from conch.families.whisper.encoder import WhisperEncoder, WhisperEncoderConfig
from conch.triton.models import component_model

TritonPythonModel = component_model(WhisperEncoder, WhisperEncoderConfig)
