"""What does it sound like?"""

from conch.families.piper.components import PiperVocoder
from conch.families.speech.graphs import VoiceConfig
from conch.triton.models import component_model

TritonPythonModel = component_model(PiperVocoder, VoiceConfig)
