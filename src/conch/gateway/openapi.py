"""The OpenAPI document of the gateway."""

from aiohttp import web


async def document(request: web.Request) -> web.Response:
    """Answer with the document."""
    raise web.HTTPNotImplemented
