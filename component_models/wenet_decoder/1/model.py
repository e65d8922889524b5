"""The frames of a WeNet model to text."""

from conch.families.search.graphs import DecoderConfig
from conch.families.wenet.decoder import WenetDecoder
from conch.triton.models import component_model

TritonPythonModel = component_model(WenetDecoder, DecoderConfig)
