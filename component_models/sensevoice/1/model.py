"""A segment's waveform to the text of a SenseVoice."""

from conch.families.funasr.sense_voice import SenseVoiceComponent
from conch.families.search.graphs import FolderConfig
from conch.triton.models import component_model

TritonPythonModel = component_model(SenseVoiceComponent, FolderConfig)
