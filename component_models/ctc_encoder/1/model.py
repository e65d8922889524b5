"""A segment's waveform to the log probabilities of units."""

from conch.families.ctc.encoder import CtcEncoder, CtcEncoderConfig
from conch.triton.models import component_model

TritonPythonModel = component_model(CtcEncoder, CtcEncoderConfig)
