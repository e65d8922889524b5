"""The public entry point: speech in, transcript out; each request picks its own path."""

from conch.recognition import Recognition, RecognitionConfig, own_components
from conch.triton.entry_point import EntryPoint
from conch.triton.models import bls_model

TritonPythonModel = bls_model(
    lambda config, args: EntryPoint(Recognition, config, own_components(), args), RecognitionConfig
)
