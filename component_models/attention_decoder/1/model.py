"""Hidden states to n-best texts, or to the times of a text's words."""

from conch.families.whisper.decoder import WhisperDecoder, WhisperDecoderConfig
from conch.triton.models import component_model

TritonPythonModel = component_model(WhisperDecoder, WhisperDecoderConfig)
