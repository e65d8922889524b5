"""Numbers, dates and amounts in digits."""

from conch.families.inverse_normalizer.normalizer import InverseNormalizer, InverseNormalizerConfig
from conch.triton.models import component_model

TritonPythonModel = component_model(InverseNormalizer, InverseNormalizerConfig)
