"""Speech out: a service of a BLS model from text to audio."""

from conch.synthesis.service import Synthesis, SynthesisConfig

__all__ = ["Synthesis", "SynthesisConfig"]
