"""Speech out: services of BLS models, from text to audio and from recordings to a voice."""

from conch.synthesis.fitting import Fitting, FittingConfig
from conch.synthesis.service import Synthesis, SynthesisConfig

__all__ = ["Fitting", "FittingConfig", "Synthesis", "SynthesisConfig"]
