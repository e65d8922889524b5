"""Punctuation and capitals for texts that have none."""

from conch.families.punctuation.model import PunctuatorConfig
from conch.families.punctuation.punctuator import Punctuator
from conch.triton.models import component_model

TritonPythonModel = component_model(Punctuator, PunctuatorConfig)
