"""What does it sound like?"""

from conch.families.kokoro.components import KokoroConfig, KokoroVocoder
from conch.triton.models import component_model

TritonPythonModel = component_model(KokoroVocoder, KokoroConfig)
