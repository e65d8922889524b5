"""The limits of the orchestrator, set by the `parameters` of its config.pbtxt."""

from dataclasses import dataclass

from conch.wire.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorConfig:
    """What one instance of the speech model takes on."""

    max_requests_in_flight: int = 256
    """Requests answered at once; one more is refused."""
    max_audio_s: float = 14_400.0
    """Longest audio of one row, in seconds."""
    max_segments_in_flight: int = 32
    """Segments of one row between VAD and result, so that an hour of audio stays small."""
    max_calls_in_flight: int = 60
    """Component calls at once, over all requests, a quarter of them kept for the chunks of live
    streams; one more waits for a thread. Less than the backend's `thread-pool-size`, whose threads
    send the answers as well."""
    max_streams: int = 512
    """Streams open at once; one more is refused."""
    max_chunk_s: float = 60.0
    """Longest audio of one chunk of a stream, in seconds."""
    max_stream_s: float = 86_400.0
    """Longest audio of a whole stream, in seconds."""
    max_waiting_chunks: int = 256
    """Chunks of one stream sent without waiting for their answers; one more ends the stream."""
    max_second_passes: int = 4
    """Utterances of one stream in their second pass at once; the stream waits for one more."""
    stream_ttl_s: float = 60.0
    """Seconds without a chunk after which a stream expires."""
    stream_step_ms: int = 640
    """What a stream is heard in: `chunk_ms` of ctc_streaming_encoder, a multiple of 32."""

    def __post_init__(self) -> None:
        """Check what would not be noticed otherwise.

        Raises:
            ConfigError: a value makes no sense.
        """
        if self.stream_step_ms <= 0 or self.stream_step_ms % 32:
            raise ConfigError(
                f"stream_step_ms takes a multiple of 32, whole frames of the VAD; "
                f"is: {self.stream_step_ms}"
            )
        if self.max_calls_in_flight < 4:
            raise ConfigError(
                f"max_calls_in_flight takes 4 or more; is: {self.max_calls_in_flight}"
            )
        if not self.stream_ttl_s > 0:
            raise ConfigError(f"stream_ttl_s must be above 0; is: {self.stream_ttl_s:g}")
        if self.max_second_passes < 1:
            raise ConfigError(f"max_second_passes takes 1 or more; is: {self.max_second_passes}")
