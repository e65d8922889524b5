"""`GET /v1/listen`: live audio over a WebSocket, the plain way."""

from aiohttp import web


async def listen(request: web.Request) -> web.StreamResponse:
    """Answer live audio with the text so far."""
    raise web.HTTPNotImplemented
