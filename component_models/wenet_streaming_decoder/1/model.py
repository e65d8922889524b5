"""A stream's frames, chunk by chunk, to the text so far."""

from conch.decoding.streaming_decoder import StreamingDecoder
from conch.families.search.graphs import LiveDecoderConfig
from conch.families.wenet.decoder import WenetDecoder
from conch.triton.models import stream_model

TritonPythonModel = stream_model(
    lambda config: StreamingDecoder(WenetDecoder(config), config.stream_ttl_s), LiveDecoderConfig
)
