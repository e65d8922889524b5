"""OpenAI's realtime transcription sessions over a WebSocket, and the secrets that open them."""

from conch.gateway.realtime.secrets import make_client_secret, make_transcription_session
from conch.gateway.realtime.session import realtime

__all__ = ["make_client_secret", "make_transcription_session", "realtime"]
