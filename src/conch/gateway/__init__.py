"""The gateway: OpenAI's audio API, a realtime WebSocket and a web page in front of Conch."""
