"""The WebSocket of a live session, whose client may stop reading or go away at any time."""

from collections.abc import AsyncIterator

import aiohttp
from aiohttp import hdrs, web

from conch.gateway.access import is_websocket, protocols_in
from conch.gateway.errors import ApiError
from conch.gateway.sending import sent_in_time
from conch.gateway.state import GATEWAY, REQUEST_ID

CLOSE_TIMEOUT_S = 5.0
"""Seconds for a client to take the last messages, and again for its own close frame."""

NO_CODE = 1005
"""Code of a close frame without one (RFC 6455, section 7.4.1)."""
OWN_CODES = 3000
"""First of the codes that programs choose (RFC 6455, section 7.4.2)."""
ABNORMAL = int(aiohttp.WSCloseCode.ABNORMAL_CLOSURE)
"""Code of an end without a close frame."""


class LiveSocket:
    """The WebSocket of one session.

    Its methods raise a ConnectionResetError if the client is gone, or does not read or answer.
    """

    def __init__(self, request: web.Request, protocol: str, max_message_bytes: int) -> None:
        """Prepare the WebSocket that a request asks for; `accept` opens it.

        Browsers offer the subprotocol of the route with another one, which holds their key. Raise
        an ApiError if the request asks for no WebSocket, or for other subprotocols only.
        """
        _check_upgrade(request, protocol)
        self._request, self._times = request, request.app[GATEWAY].config.times
        # Pings and close frames are answered here, because aiohttp has no time limit for it.
        self.response = web.WebSocketResponse(
            heartbeat=self._times.ping_s,
            autoping=False,
            autoclose=False,
            compress=False,
            max_msg_size=max_message_bytes,
            protocols=(protocol,),
            timeout=CLOSE_TIMEOUT_S,
        )
        self.response.headers["x-request-id"] = request[REQUEST_ID]
        self._sent_code: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is accepted and not closed."""
        socket = self.response
        return socket.prepared and not socket.closed and socket.close_code is None

    @property
    def code(self) -> int:
        """Code of the first close frame; ABNORMAL if there was none."""
        if self._sent_code is not None:
            return self._sent_code
        code = self.response.close_code
        return ABNORMAL if code is None else int(code) or NO_CODE

    async def accept(self) -> None:
        await self.response.prepare(self._request)

    async def frames(self) -> AsyncIterator[aiohttp.WSMessage]:
        """Yield the frames of text and of bytes until the WebSocket is closed."""
        async for frame in self.response:
            if frame.type == aiohttp.WSMsgType.PING:
                await sent_in_time(self.response.pong(frame.data), self._request)
            elif frame.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                yield frame

    async def send(self, content: str | bytes) -> None:
        if isinstance(content, str):
            await sent_in_time(self.response.send_str(content), self._request)
        else:
            await sent_in_time(self.response.send_bytes(content), self._request)

    async def close(self, code: int) -> None:
        """Close it, with this code if the client has not closed it before."""
        if self.is_open:
            self._sent_code = code
        await self.response.close(code=code)
        if self.response.close_code == ABNORMAL:
            self.abort()
            raise ConnectionResetError("the client has sent no close frame")

    def abort(self) -> None:
        """Break the connection off, and drop what the client has not read."""
        self._sent_code = None
        # After a mere close it stays until the client has read everything.
        if self._request.transport is not None:
            self._request.transport.abort()


def _check_upgrade(request: web.Request, protocol: str) -> None:
    if not is_websocket(request):
        raise ApiError(
            426,
            f"{request.path} is a WebSocket: connect by ws:// or wss://",
            code="upgrade_required",
            headers={hdrs.UPGRADE: "websocket"},
        )
    offered = protocols_in(request.headers)
    if offered and protocol not in offered:
        # aiohttp would log them, and one may be a key.
        raise ApiError(
            400,
            f"offer the subprotocol '{protocol}' before the one with the key, or none",
            code="unknown_subprotocol",
        )
