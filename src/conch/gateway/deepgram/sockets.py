"""What Deepgram's WebSockets share."""

from abc import abstractmethod

from aiohttp import web

from conch.gateway.access import KEY_SCHEMES
from conch.gateway.deepgram.results import Message
from conch.gateway.doors import Door
from conch.gateway.socket_session import LiveSocket, PlainSession


class DeepgramSession(PlainSession):
    """A session whose messages are Deepgram's."""

    @staticmethod
    def socket(request: web.Request, door: Door) -> LiveSocket:
        """Return the WebSocket of a session; browsers offer a scheme and then their key."""
        return LiveSocket(request, door.max_message_bytes, *KEY_SCHEMES)

    async def _send(self, message: Message) -> None:
        if message["type"] == "error":
            error = message["error"]
            code = str(error["code"] or error["type"])
            variant = "SchemaError" if code == "unknown_message" else code.upper()
            # `variant` is of v1, `code` of v2.
            codes = {"variant": variant, "code": variant}
            await super()._send({"type": "Error", **codes, "description": error["message"]})
        elif (told := self._told(message)) is not None:
            await super()._send(told)

    @abstractmethod
    def _told(self, message: Message) -> Message | None:
        """Return Deepgram's message in place of one of Conch's; None if it has none."""
