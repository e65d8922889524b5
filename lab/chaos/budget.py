"""The most memory that a server takes, computed from its settings."""

from collections.abc import Mapping

from conch.bls.admission import FOR_SHORT
from conch.gateway import GatewayConfig
from conch.recognition.config import RecognitionConfig

AT_REST_MB = 2_600.0
"""All models, warm (`python -m lab growth`)."""
COPIES = 3
"""Of audio as sent: Triton's message, shared memory, and the process of `speech`."""
RECORDING_MB_PER_S = 600 / 3600
"""For each second of audio in work (`python -m lab growth`)."""
STREAM_MB = 6.0
"""For each live stream, in all processes (`python -m lab growth`)."""
SENDING_COPIES = 2
"""Of a file that the gateway sends: its own, and gRPC's."""
SMALL_FILE_MB = 4.0
"""For each file at the gateway: a megabyte in memory, its copies, and the form."""
BACKLOG_MB_PER_S = 48_000 * 4 / 1e6
"""Of live audio that waits at the gateway: float samples at 48 kHz."""


def worst_case_mb(speech: RecognitionConfig, gateway: GatewayConfig) -> Mapping[str, float]:
    """Return the most memory of `conch serve` in MB of 10⁶ bytes, by what it is for.

    The room for uploads is not in it: it is on the disk, unless `/tmp` is memory.
    """
    audio_s = speech.max_audio_in_flight_s * (1 + FOR_SHORT)
    backlog_s = gateway.max_sessions * gateway.max_backlog_s
    return {
        "the models at rest": AT_REST_MB,
        "audio as sent": COPIES * speech.max_bytes_in_flight / 1e6,
        "recordings in work": RECORDING_MB_PER_S * audio_s,
        "live streams": STREAM_MB * speech.max_streams,
        "gateway: files on their way": SENDING_COPIES * gateway.max_body_mb * len(gateway.servers),
        "gateway: small files": SMALL_FILE_MB * gateway.max_files,
        "gateway: live audio that waits": BACKLOG_MB_PER_S * backlog_s,
    }
