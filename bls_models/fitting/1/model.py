"""The public entry point of fitting: recordings in, a voice out."""

from conch.families import traits
from conch.synthesis import Fitting, FittingConfig
from conch.triton.entry_point import EntryPoint
from conch.triton.models import bls_model

# Without entry points, whose calls wait for the requests of others.
TritonPythonModel = bls_model(
    lambda config, args: EntryPoint(Fitting, config, traits(), args), FittingConfig
)
