"""Which voice is like this one?"""

from conch.families.kokoro.likeness import VoiceStyle, VoiceStyleConfig
from conch.triton.models import component_model

TritonPythonModel = component_model(VoiceStyle, VoiceStyleConfig)
