"""A segment's waveform to the frames of a transducer."""

from conch.families.search.graphs import RecordingsConfig
from conch.families.transducer.networks import TransducerEncoder
from conch.triton.models import component_model

TritonPythonModel = component_model(TransducerEncoder, RecordingsConfig)
