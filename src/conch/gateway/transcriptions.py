"""`POST /v1/audio/transcriptions` and `/v1/audio/translations`."""

from aiohttp import web


async def transcribe(request: web.Request) -> web.StreamResponse:
    """Answer with the text of a file."""
    raise web.HTTPNotImplemented


async def translate(request: web.Request) -> web.StreamResponse:
    """Answer with the English text of a file."""
    raise web.HTTPNotImplemented
