"""A stream's units, chunk by chunk, to the text so far."""

from conch.decoding.streaming_decoder import StreamingDecoder
from conch.families.funasr.online import OnlineDecoderConfig, UnitSearcher
from conch.triton.models import stream_model

TritonPythonModel = stream_model(
    lambda config: StreamingDecoder(UnitSearcher(config), config.stream_ttl_s), OnlineDecoderConfig
)
