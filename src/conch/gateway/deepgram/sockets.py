"""What Deepgram's WebSockets share, and how their addresses know Conch's own protocol."""

from collections.abc import Collection, Sequence

from aiohttp import web

from conch.gateway.access import KEY_SCHEMES, protocols_in
from conch.gateway.deepgram.errors import code_of
from conch.gateway.errors import ApiError
from conch.gateway.socket_session import PROTOCOL, PlainSession

TOKENS = KEY_SCHEMES
"""Subprotocols that a browser offers before its key."""


def is_conchs(request: web.Request, names: Collection[str]) -> bool:
    """Return whether a session is of Conch's own protocol, which had this address before.

    It offers that subprotocol, or its query has one of the names that Deepgram does not know.
    """
    return PROTOCOL in protocols_in(request.headers) or not request.query.keys().isdisjoint(names)


class DeepgramSocket(PlainSession):
    """A session that tells errors in Deepgram's shape."""

    async def fail(self, error: ApiError) -> None:
        code = code_of(error)
        await self._send(
            {"type": "Error", "variant": code, "code": code, "description": str(error)}
        )

    async def _refuse(self, sent: str | bytes, known: Sequence[str]) -> None:
        names = ", ".join(known)
        description = f"a text frame is JSON with a type of {names}"
        shown = f"{sent!r:.200}"
        error = {"variant": "SchemaError", "description": description, "message": shown}
        await self._send({"type": "Error", **error})
