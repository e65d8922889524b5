"""A stream's samples, chunk by chunk, to the text so far."""

from conch.decoding.streaming_decoder import StreamingDecoder
from conch.families.kaldi.decoder import KaldiDecoder, KaldiStreamingDecoderConfig
from conch.triton.models import stream_model

TritonPythonModel = stream_model(
    lambda config: StreamingDecoder(KaldiDecoder(config), config.stream_ttl_s),
    KaldiStreamingDecoderConfig,
)
