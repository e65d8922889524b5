"""A stream's frames, chunk by chunk, to the text so far."""

from conch.decoding.streaming_decoder import StreamingDecoder
from conch.families.transducer.decoder import TransducerDecoder, TransducerStreamingDecoderConfig
from conch.triton.models import stream_model

TritonPythonModel = stream_model(
    lambda config: StreamingDecoder(TransducerDecoder(config), config.stream_ttl_s),
    TransducerStreamingDecoderConfig,
)
