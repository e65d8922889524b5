"""A segment's waveform to hidden states."""

from conch.families.moonshine.network import EncoderComponent, MoonshineConfig
from conch.triton.models import component_model

TritonPythonModel = component_model(EncoderComponent, MoonshineConfig)
