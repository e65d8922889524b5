"""Speech out: a service of a BLS model from text to audio."""

from conch.synthesis.config import SynthesisConfig
from conch.synthesis.service import Synthesis

__all__ = ["Synthesis", "SynthesisConfig"]
