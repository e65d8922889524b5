"""A stream's samples, piece by piece, to the units of an online Paraformer."""

from conch.families.funasr.online import OnlineEncoder
from conch.families.search.graphs import LiveConfig
from conch.triton.models import stream_model

TritonPythonModel = stream_model(OnlineEncoder, LiveConfig)
