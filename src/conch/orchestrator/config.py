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
