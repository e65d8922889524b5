"""Log probabilities of units to text."""

from conch.families.ctc.decoder import CtcDecoder, CtcDecoderConfig
from conch.triton.models import component_model

TritonPythonModel = component_model(CtcDecoder, CtcDecoderConfig, is_frozen=True)
