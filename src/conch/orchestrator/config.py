"""The limits of the orchestrator, set by the `parameters` of its config.pbtxt."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorConfig:
    """What one instance of the speech model takes on."""

    max_requests_in_flight: int = 256
    """Requests answered at once; one more is refused."""
    max_audio_s: float = 14_400.0
    """Longest audio of one row, in seconds."""
    max_segments_in_flight: int = 32
    """Segments of one row between VAD and result, so that an hour of audio stays small."""
    max_calls_in_flight: int = 128
    """Component calls at once, over all requests; one more waits for a thread."""
    max_streams: int = 512
    """Streams open at once; one more is refused."""
    max_chunk_s: float = 60.0
    """Longest audio of one chunk of a stream, in seconds."""
    max_stream_s: float = 86_400.0
    """Longest audio of a whole stream, in seconds."""
    stream_ttl_s: float = 60.0
    """Seconds without a chunk after which a stream expires."""
    stream_step_ms: int = 640
    """What a stream is heard in: `chunk_ms` of ctc_streaming_encoder, a multiple of 32."""
