"""A segment's waveform to the texts of a Kaldi model."""

from conch.families.kaldi.decoder import KaldiDecoder, KaldiDecoderConfig
from conch.triton.models import component_model

TritonPythonModel = component_model(KaldiDecoder, KaldiDecoderConfig)
