"""A segment's waveform to the text of a Paraformer."""

from conch.families.funasr.paraformer import ParaformerComponent
from conch.families.search.graphs import DecoderConfig
from conch.triton.models import component_model

TritonPythonModel = component_model(ParaformerComponent, DecoderConfig)
