"""A stream's samples, piece by piece, to the frames of a transducer."""

from conch.families.search.graphs import LiveConfig
from conch.families.transducer.networks import TransducerStreamingEncoder
from conch.triton.models import stream_model

TritonPythonModel = stream_model(TransducerStreamingEncoder, LiveConfig)
