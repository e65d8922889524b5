"""The public entry point of speech: text in, audio out."""

from conch.bls.config import own_components
from conch.synthesis import Synthesis, SynthesisConfig
from conch.triton.entry_point import EntryPoint
from conch.triton.models import bls_model

TritonPythonModel = bls_model(
    lambda config, args: EntryPoint(Synthesis, config, own_components(), args), SynthesisConfig
)
