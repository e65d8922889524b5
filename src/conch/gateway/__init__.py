"""The gateway: OpenAI's audio API, a realtime WebSocket and a web page in front of Conch."""

from conch.gateway.config import GatewayConfig
from conch.gateway.service import GatewayService

__all__ = ["GatewayConfig", "GatewayService"]
