"""How probable texts are as language."""

from conch.decoding.ngram.model import LanguageModelConfig
from conch.families.ngram.rescorer import Rescorer
from conch.triton.models import component_model

TritonPythonModel = component_model(Rescorer, LanguageModelConfig)
