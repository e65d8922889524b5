"""The limits of recognition, set by the `parameters` of its config.pbtxt."""

import math
from dataclasses import dataclass

from conch.bls.config import BlsConfig
from conch.wire.errors import ConfigError

VAD_FRAME_MS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class RecognitionConfig(BlsConfig):
    max_audio_s: float = 14_400.0
    """Longest recording, in seconds."""
    max_segments_in_flight: int = 32
    """Segments of one recording in flight at once. It limits the memory of long recordings. Until
    the first one of a streamed answer is known, as many are at work as there are cores."""
    max_streams: int = 512
    """Live streams open at once; one more is refused."""
    max_chunk_s: float = 60.0
    """Longest chunk of a live stream, in seconds."""
    max_stream_s: float = 86_400.0
    """Longest live stream, in seconds. Behind a gateway not below its longest session, 86400."""
    max_waiting_s: float = 60.0
    """Seconds of audio in chunks of one live stream that may wait for their turn. A chunk counts as
    0.1 s at least. One more ends the stream, unless it is alone."""
    max_second_passes: int = 4
    """Utterances of one live stream in their second pass at once; one more is left out. A stream
    that is sent faster than it is spoken waits instead."""
    first_pass_language: str = "en"
    """Language of the streaming CTC model. In another one a `two_pass` stream does without it."""
    stream_ttl_s: float = 60.0
    """Seconds without a chunk after which a live stream expires. Behind a gateway, which sends one
    every 20 s, at least 30."""
    stream_step_ms: int = 640
    """Length of a live step: a multiple of 32, equal to `chunk_ms` of ctc_streaming_encoder."""

    def __post_init__(self) -> None:
        step_ms = self.stream_step_ms
        if not 0 < step_ms < math.inf or step_ms % VAD_FRAME_MS:
            raise ConfigError(
                f"parameter stream_step_ms takes a multiple of {VAD_FRAME_MS} above 0, whole "
                f"frames of the VAD; is: {step_ms}"
            )
        BlsConfig.__post_init__(self)
