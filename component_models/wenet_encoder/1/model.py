"""A segment's waveform to the frames of a WeNet model."""

from conch.families.search.graphs import RecordingsConfig
from conch.families.wenet.networks import WenetEncoder
from conch.triton.models import component_model

TritonPythonModel = component_model(WenetEncoder, RecordingsConfig)
