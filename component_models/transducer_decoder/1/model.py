"""The frames of a transducer to text."""

from conch.families.transducer.decoder import TransducerDecoder, TransducerDecoderConfig
from conch.triton.models import component_model

TritonPythonModel = component_model(TransducerDecoder, TransducerDecoderConfig)
