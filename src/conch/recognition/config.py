"""The limits of the orchestrator, set by the `parameters` of its config.pbtxt."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields

from conch.wire.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorConfig:
    """Limits of one instance of an entry point."""

    max_requests_in_flight: int = 256
    """Requests in flight at once; one more is refused."""
    max_bytes_in_flight: int = 2_147_483_648
    """Bytes of audio as sent, of all requests and live chunks at once; one beyond is refused unless
    it is alone. A quarter is saved for recordings, and another one for live chunks."""
    max_audio_in_flight_s: float = 28_800.0
    """Seconds of audio of all recordings at once, over rows and channels; others wait. A request
    with more is refused. An hour takes up to 600 MB."""
    max_wait_s: float = 30.0
    """Longest wait of a recording without a deadline behind others, in seconds, or eight times the
    time of its own work if that is longer. One that would wait longer is refused at once."""
    max_encoder_calls: int = 4
    """Calls of recordings in flight at once to vad, and as many to attention_encoder; others wait
    for their turn. One recording has half of them. Twice the instances, times the batch on a GPU.
    """
    max_decoder_calls: int = 16
    """The same for each other component: two full batches of attention_decoder. One recording has
    a quarter of them."""
    max_audio_s: float = 14_400.0
    """Longest audio of one row, in seconds."""
    max_segments_in_flight: int = 32
    """Segments of one row in flight at once. It limits the memory of long recordings. Until the
    first one of a streamed answer is known, as many are at work as there are cores."""
    max_calls_in_flight: int = 60
    """Component calls in flight at once, over all requests. A quarter is for live chunks, at most
    another for passes over live utterances, an eighth for models of `post`, a sixteenth for the
    ends of streams; one more waits for a thread. Keep it 4 below the backend's `thread-pool-size`:
    its threads also send answers."""
    min_hang_s: float = 5.0
    """Seconds without an answer that never count as a hang of a component. Beyond them, one that
    takes 15 times as long as usual is ended and loaded again; waits for a core do not count."""
    max_streams: int = 512
    """Live streams open at once; one more is refused."""
    max_chunk_s: float = 60.0
    """Longest chunk of a live stream, in seconds."""
    max_stream_s: float = 86_400.0
    """Longest live stream, in seconds."""
    max_waiting_s: float = 60.0
    """Seconds of audio in chunks of one live stream that may wait for their turn, a chunk counting
    as 0.1 s at least; one more ends the stream, unless it is alone."""
    max_second_passes: int = 4
    """Utterances of one live stream in their second pass at once; one more is left out. A stream
    that is sent faster than it is spoken waits instead."""
    max_passes_in_flight: int = 4
    """Rolling and second passes of all live streams at once; others wait, the most urgent in front.
    Twice the instances of the attention models keep them busy: more on a GPU."""
    first_pass_language: str = "en"
    """Language of the streaming CTC model. In another one a `two_pass` stream does without it."""
    stream_ttl_s: float = 60.0
    """Seconds without a chunk after which a live stream expires."""
    stream_step_ms: int = 640
    """Length of a live step: a multiple of 32, equal to `chunk_ms` of ctc_streaming_encoder."""

    def __post_init__(self) -> None:
        """Check every limit.

        Raises:
            ConfigError: a value is too low, infinite or not a number.
        """
        for item in fields(self):
            if item.type is str:
                continue
            value = getattr(self, item.name)
            takes, is_taken = _range(item.name, is_whole=item.type is int)
            if not (math.isfinite(value) and is_taken(value)):
                raise ConfigError(f"parameter {item.name} takes {takes}; is: {value}")


def _range(name: str, *, is_whole: bool) -> tuple[str, Callable[[float], bool]]:
    """Return the range of a limit, in words and as a check of a finite number."""
    if name == "stream_step_ms":
        return (
            "a multiple of 32 above 0, whole frames of the VAD",
            lambda value: value > 0 and value % 32 == 0,
        )
    if not is_whole:
        return "a finite number above 0", lambda value: value > 0
    # Each lane has a thread.
    least = 4 if name == "max_calls_in_flight" else 1
    return f"an integer of {least} or more", lambda value: value >= least
