"""A segment's waveform to the text of an online Paraformer."""

from conch.families.funasr.online import OnlineParaformerComponent
from conch.families.search.graphs import DecoderConfig
from conch.triton.models import component_model

TritonPythonModel = component_model(OnlineParaformerComponent, DecoderConfig)
