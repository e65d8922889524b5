"""How does a voice sound more like a recording?"""

from conch.families.kokoro.gradient import GradientConfig, KokoroGradient
from conch.triton.models import component_model

TritonPythonModel = component_model(KokoroGradient, GradientConfig)
