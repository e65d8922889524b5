"""Where is speech?"""

from conch.families.silero.vad import SileroConfig, SileroVad
from conch.triton.models import component_model

TritonPythonModel = component_model(SileroVad, SileroConfig)
