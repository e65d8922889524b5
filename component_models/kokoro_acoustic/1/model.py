"""What does the voice do, and when?"""

from conch.families.kokoro.components import KokoroAcoustic, KokoroConfig
from conch.triton.models import component_model

TritonPythonModel = component_model(KokoroAcoustic, KokoroConfig)
