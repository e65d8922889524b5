"""What does it sound like?"""

from conch.families.hibari.components import HibariVocoder
from conch.families.speech.graphs import VoiceConfig
from conch.triton.models import component_model

TritonPythonModel = component_model(HibariVocoder, VoiceConfig)
