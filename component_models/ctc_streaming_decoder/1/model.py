"""A stream's log probabilities, chunk by chunk, to the text so far."""

from conch.decoding.streaming_decoder import StreamingDecoder
from conch.families.ctc.decoder import CtcDecoder, CtcStreamingDecoderConfig
from conch.triton.models import stream_model

TritonPythonModel = stream_model(
    lambda config: StreamingDecoder(CtcDecoder(config), config.stream_ttl_s),
    CtcStreamingDecoderConfig,
    is_frozen=True,
)
