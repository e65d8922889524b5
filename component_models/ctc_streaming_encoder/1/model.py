"""A stream's samples, piece by piece, to the log probabilities of units."""

from conch.families.ctc.encoder import CtcStreamingEncoderConfig, streaming_encoder
from conch.triton.models import stream_model

TritonPythonModel = stream_model(streaming_encoder, CtcStreamingEncoderConfig)
