"""What does the voice do, and when?"""

from conch.families.hibari.components import HibariAcoustic
from conch.families.speech.graphs import VoiceConfig
from conch.triton.models import component_model

TritonPythonModel = component_model(HibariAcoustic, VoiceConfig)
