"""What Deepgram's WebSockets share, and how their addresses know Conch's own protocol."""

from abc import abstractmethod
from collections.abc import Collection

from aiohttp import web

from conch.gateway.access import KEY_SCHEMES, protocols_in
from conch.gateway.deepgram.results import Message
from conch.gateway.doors import Door
from conch.gateway.socket_session import PROTOCOL, LiveSocket, PlainSession


def is_conchs(request: web.Request, names: Collection[str]) -> bool:
    """Return whether a session is of Conch's own protocol, which had this address before.

    It offers that subprotocol, or its query has one of the names that Deepgram does not know.
    """
    return PROTOCOL in protocols_in(request.headers) or not request.query.keys().isdisjoint(names)


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
