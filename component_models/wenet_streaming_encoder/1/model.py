"""A stream's samples, piece by piece, to the frames of a WeNet model."""

from conch.families.search.graphs import LiveConfig
from conch.families.wenet.networks import WenetStreamingEncoder
from conch.triton.models import stream_model

TritonPythonModel = stream_model(WenetStreamingEncoder, LiveConfig)
