"""How probable texts are as language, after what was said before."""

from conch.families.smollm2.model import NeuralRescorer, NeuralRescorerConfig
from conch.triton.models import component_model

TritonPythonModel = component_model(NeuralRescorer, NeuralRescorerConfig)
