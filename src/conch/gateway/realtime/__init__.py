"""OpenAI's realtime transcription sessions over a WebSocket, and the secrets that open them."""
